"""The launches of im2col and col2im."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from convfind.device.target import DeviceKind, Target
from convfind.kit.epilogue import Epilogue
from convfind.kit.gemm_lowering.plan import Plan
from convfind.kit.gemm_lowering.product import LARGEST, Chunk
from convfind.kit.launching import work_group
from convfind.kit.sizes import ceil_div, in_3d, round_up
from convfind.problem import ConvProblem
from convfind.solver.defines import DefineValue, make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import Argument, BufferArg, Launch, Memory, i32
from convfind.types import DataType

_GROUP_ITEMS = 256
#: Launch size along axes 1 and 2 that every runtime supports; kernels loop over the rest.
_MOST_ITEMS = 2**15
#: Macros of the kernels on CPUs. Work-items of GPUs treat one element, side by side.
_CPU_MACROS: Mapping[str, Mapping[str, int]] = {
    "im2col_first": {"BLOCK": 4096},
    "im2col_last": {"BLOCK": 64, "RUN": 2**30},
    "col2im_first": {"BLOCK": 1024},
    "col2im_last": {"BLOCK": 64, "RUN": 256},
}


#: How im2col knows a type: it copies bits.
_COPIED = {8: "FLOAT64", 2: "BFLOAT16", 1: "INT8"}


def column_sums(dtype: DataType) -> DataType:
    """Return the type of the columns of a gradient with respect to data, which are added up."""
    return DataType.FLOAT64 if dtype is DataType.FLOAT64 else DataType.FLOAT32


def im2col(problem: ConvProblem, target: Target, plan: Plan, chunk: Chunk) -> Launch:
    """Return the launch that writes the columns of a chunk, in the type of x."""
    shape = plan.shape
    channels = problem.x_shape[1]
    name = "im2col_last" if shape.channels_last else "im2col_first"
    block, run = _macros(name, target)
    positions = ceil_div(chunk.positions, block)
    if shape.channels_last:
        # Taps that are neighbours in x, too, are copied as one.
        is_joined = shape.groups == 1 and _dilation(problem)[-1] == 1
        taps = 1 if is_joined else problem.filter[-1]
        length = shape.channels * problem.filter[-1] // taps
        sizes: tuple[Argument, ...] = (i32(channels), i32(shape.groups), i32(taps), i32(length))
        items = (shape.groups * ceil_div(length, run), positions, chunk.images)
    else:
        sizes = (i32(channels),)
        items = (positions, channels, chunk.images)
    arguments = (
        *(BufferArg(Memory.X), BufferArg(Memory.WORKSPACE, plan.columns), *sizes),
        *(*_part(chunk), *_window(problem)),
    )
    copied = _COPIED.get(problem.dtype.numpy.itemsize)
    return _launch(name, target, items, arguments, copied)


def col2im(problem: ConvProblem, target: Target, plan: Plan) -> Iterator[tuple[Chunk, Launch]]:
    """Yield the chunks that x depends on, and the launch that adds their columns to x.

    Columns have the type of `column_sums`.

    Every element of x is visited and multiplied by beta at its first visit.
    """
    elements = math.prod(problem.x_shape[2:])
    visited = 0
    for chunk in plan.chunks:
        first, end = _touched(problem, chunk)
        first, end = min(first, visited), max(end, visited)
        is_last = chunk.position + chunk.positions == plan.shape.positions
        if is_last:
            end = elements
        if end > first:
            yield chunk, _col2im(problem, target, plan, chunk, (first, end, visited))
        visited = 0 if is_last else end


def _col2im(
    problem: ConvProblem, target: Target, plan: Plan, chunk: Chunk, visit: tuple[int, int, int]
) -> Launch:
    shape = plan.shape
    first, end, visited = visit
    channels = problem.x_shape[1]
    name = "col2im_last" if shape.channels_last else "col2im_first"
    block, run = _macros(name, target)
    epilogue = Epilogue(beta=problem.beta, arithmetic=column_sums(problem.dtype))
    elements = ceil_div(end - first, block)
    if shape.channels_last:
        sizes: tuple[Argument, ...] = (i32(channels), i32(shape.groups))
        items = (shape.groups * ceil_div(shape.channels, run), elements, chunk.images)
    else:
        sizes = (i32(channels),)
        items = (elements, channels, chunk.images)
    arguments = (
        *(BufferArg(Memory.WORKSPACE, plan.columns), BufferArg(Memory.X), *sizes, *_part(chunk)),
        *(i32(first), i32(end - first), i32(visited)),
        *(*epilogue.arguments, *_window(problem)),
    )
    dtype = None if problem.dtype is DataType.FLOAT32 else problem.dtype.name
    return _launch(name, target, items, arguments, dtype, epilogue.defines)


def _part(chunk: Chunk) -> tuple[Argument, ...]:
    """Return the arguments that identify the chunk."""
    return (i32(chunk.image), i32(chunk.images), i32(chunk.position), i32(chunk.positions))


def _touched(problem: ConvProblem, chunk: Chunk) -> tuple[int, int]:
    """Elements of an image of x that a chunk's windows can reach, along the slowest axis."""
    size, inner = problem.x_shape[2], math.prod(problem.x_shape[3:])
    per_index = math.prod(problem.y_shape[3:])
    first = chunk.position // per_index
    last = (chunk.position + chunk.positions - 1) // per_index
    step, pad = problem.stride[0], problem.padding[0]
    reach = problem.dilation[0] * (problem.filter[0] - 1) + 1
    begin = max(0, min(size, first * step - pad))
    end = max(0, min(size, last * step - pad + reach))
    return begin * inner, end * inner


def _macros(name: str, target: Target) -> tuple[int, int]:
    """Return a kernel's BLOCK and RUN."""
    macros = _CPU_MACROS[name] if target.kind is DeviceKind.CPU else {}
    return macros.get("BLOCK", 1), macros.get("RUN", 1)


def _launch(
    name: str,
    target: Target,
    items: tuple[int, int, int],
    arguments: tuple[Argument, ...],
    dtype: str | None,
    more: Mapping[str, DefineValue] | None = None,
) -> Launch:
    """Return a launch; ``dtype`` is the kernel's DTYPE where that is not its default."""
    on_cpu = target.kind is DeviceKind.CPU
    macros = _CPU_MACROS[name] if on_cpu else {}
    defines = make_defines(macros, {"DTYPE": dtype} if dtype else {}, more or {})
    source = KernelSource(__package__, f"kernels/{name}.cl")
    group = (1, 1, 1) if on_cpu else work_group(items, min(_GROUP_ITEMS, target.max_work_group))
    most = (LARGEST, _MOST_ITEMS, _MOST_ITEMS)
    return Launch(
        KernelSpec(Program(source, defines=defines), name),
        arguments,
        tuple(round_up(min(n, m), g) for n, m, g in zip(items, most, group, strict=True)),
        group,
    )


def _window(problem: ConvProblem) -> tuple[Argument, ...]:
    """The kernels' last arguments."""
    sizes = (
        *in_3d(problem.x_shape[2:], 1),
        *in_3d(problem.filter, 1),
        *in_3d(problem.y_shape[2:], 1),
        *in_3d(tuple(min(step, LARGEST) for step in problem.stride), 1),
        *in_3d(_dilation(problem), 1),
        *in_3d(problem.padding, 0),
    )
    return tuple(map(i32, sizes))


def _dilation(problem: ConvProblem) -> tuple[int, ...]:
    """The dilation, 1 where there is one tap only."""
    pairs = zip(problem.dilation, problem.filter, strict=True)
    return tuple(step if taps > 1 else 1 for step, taps in pairs)
