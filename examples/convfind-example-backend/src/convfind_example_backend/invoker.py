"""`NumpyInvoker`: steps that run where they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from convfind.backend_kit.invoker import BoundSteps
from convfind.backend_kit.launching import (
    LaunchLimits,
    check_end,
    check_entry,
    launch_name,
    loaded_program,
    scalar,
)
from convfind.backend_kit.ready import matrix_ends
from convfind.errors import LaunchError
from convfind.problem import Activation
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import (
    BufferArg,
    Fill,
    GemmEpilogue,
    Launch,
    LibraryGemm,
    LocalArg,
    Matrix,
    Step,
    TensorMapArg,
)
from convfind_example_backend.compiler import LoadedKernel
from convfind_example_backend.memory import Bytes, NumpyBuffer


class NumpyInvoker(BoundSteps["_ReadyStep"]):
    """Steps made ready."""

    def __init__(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> None:
        super().__init__("numpy", NumpyBuffer, steps, lambda step: _ready(step, loaded))

    def __call__(self, args: InvokeArgs) -> None:
        """Run the steps in order."""
        self.bind(args)
        for step in self._steps:
            step.run(args)

    def timed(self, args: InvokeArgs) -> float:
        """Run the steps and return milliseconds."""
        if not self._steps:
            return 0.0
        began = perf_counter()
        self(args)
        return (perf_counter() - began) * 1e3


class _ReadyStep:
    """A step: the memory that it must find, and its function of the arguments of a run."""

    def __init__(
        self, name: str, ends: Sequence[tuple[str, int]], run: Callable[[InvokeArgs], None]
    ) -> None:
        self.name = name
        self.run = run
        self._ends = ends

    def bind(self, buffers: Mapping[str, NumpyBuffer]) -> None:
        """Check that the memory is there. `run` looks it up, so that nothing keeps it alive."""
        for memory, end in self._ends:
            check_end(self.name, memory, end, buffers[memory].block.size)


def _ready(step: Step, loaded: Mapping[Program, object]) -> _ReadyStep:
    if isinstance(step, Fill):
        return _fill(step)
    return _launch(step, loaded) if isinstance(step, Launch) else _product(step)


def _fill(fill: Fill) -> _ReadyStep:
    def run(args: InvokeArgs) -> None:
        _memory(args, fill.memory, fill.offset)[: fill.size] = 0

    ends = [(fill.memory, fill.offset + fill.size)]
    return _ReadyStep(f"fill of {fill.memory}", ends, run)


def _launch(launch: Launch, loaded: Mapping[Program, object]) -> _ReadyStep:
    name = launch_name(launch.kernel)
    kernel = loaded_program(launch.kernel, loaded, LoadedKernel)
    check_entry(launch.kernel, [kernel.entry])
    LaunchLimits(group=1).check(launch)
    given: list[BufferArg | np.generic] = []
    for index, argument in enumerate(launch.arguments):
        if isinstance(argument, LocalArg):
            raise LaunchError(f"argument {index} of {name} is local memory; a function has none")
        if isinstance(argument, TensorMapArg):
            raise LaunchError(f"argument {index} of {name}: only CUDA has tensor maps")
        if isinstance(argument, BufferArg):
            given.append(argument)
        else:
            given.append(scalar(name, index, argument))

    def run(args: InvokeArgs) -> None:
        kernel.function(
            *(
                _memory(args, each.memory, each.offset) if isinstance(each, BufferArg) else each
                for each in given
            )
        )

    ends = [(each.memory, each.offset + 1) for each in given if isinstance(each, BufferArg)]
    return _ReadyStep(name, ends, run)


def _product(gemm: LibraryGemm) -> _ReadyStep:
    a_shape = (gemm.k, gemm.m) if gemm.trans_a else (gemm.m, gemm.k)
    b_shape = (gemm.n, gemm.k) if gemm.trans_b else (gemm.k, gemm.n)

    def run(args: InvokeArgs) -> None:
        a = _matrices(args, gemm.a, gemm.batch, *a_shape)
        b = _matrices(args, gemm.b, gemm.batch, *b_shape)
        c = _matrices(args, gemm.c, gemm.batch, gemm.m, gemm.n)
        total = np.float32(gemm.alpha) * np.matmul(
            np.swapaxes(a, 1, 2) if gemm.trans_a else a, np.swapaxes(b, 1, 2) if gemm.trans_b else b
        )
        epilogue = gemm.epilogue or GemmEpilogue()
        if gemm.beta:
            z = _matrices(args, epilogue.z or gemm.c, gemm.batch, gemm.m, gemm.n)
            total = total + np.float32(gemm.beta) * z
        if epilogue.bias is not None:
            total = total + _matrices(args, epilogue.bias, gemm.batch, 1, gemm.n)
        if epilogue.activation:
            total = Activation(epilogue.activation)(total)
        c[...] = total

    ends = [(matrix.memory, end) for matrix, end in matrix_ends(gemm)]
    return _ReadyStep(f"product of {gemm.m} x {gemm.k} and {gemm.k} x {gemm.n}", ends, run)


def _memory(args: InvokeArgs, name: str, offset: int) -> Bytes:
    buffer: NumpyBuffer = getattr(args, name)
    return buffer.block.data[offset:]


def _matrices(args: InvokeArgs, matrix: Matrix, batch: int, rows: int, columns: int) -> Any:
    dtype = matrix.dtype.numpy
    strides = tuple(step * dtype.itemsize for step in (matrix.stride, matrix.row, 1))
    data = _memory(args, matrix.memory, matrix.offset)
    return np.ndarray((batch, rows, columns), dtype, data.data, 0, strides)
