"""First layers on GPUs: few input channels, all of them in the sum of every result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config
from convfind.defines import make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.search_space import Constraint, Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, f32, i32
from convfind.solver import TunableSolver
from convfind.target import DeviceKind, Target
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_direct.cpu_first import judge_first
from convfind_solvers_direct.window import Window, window

_DTYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16)
#: Floats of local memory that all devices have room for: 48 KiB.
_MOST_FLOATS = 12288
#: Banks of local memory.
_BANKS = 32
#: Rows of the image that an item keeps a column of in registers.
_MOST_SPAN = 40
_FEWEST_ITEMS, _MOST_ITEMS = 32, 512
#: Products of a sum that is short.
_SHORT_SUM = 36
#: Of one unit of an H200: FLOP/s at the peak, and bytes/s of memory.
_UNIT_PEAK = 507e9
_UNIT_BANDWIDTH = 32e9
#: The share of the peak that the sums reach.
_ARITHMETIC_SHARE = 0.65

ROWS = Parameter("rows", (1, 2, 4, 7, 8), "rows of the result of an item")
QUADS = Parameter("quads", (1, 2), "filters of an item, in fours")
FILTER_ITEMS = Parameter("filter_items", (1, 2, 3, 4, 6, 8, 12, 16), "items that share pixels")
STRIPS = Parameter("strips", (1, 2, 4), "runs of rows of a work-group")
COLUMNS = Parameter("columns", (8, 16, 32), "columns of the result of a work-group")
DEPTH = Parameter("depth", (1, 2, 3, 4), "channels in local memory at a time")


class GpuFirst(TunableSolver):
    """Forward in one family of layouts."""

    algorithm = Algorithm.DIRECT
    is_dynamic = True
    backends = ("opencl", "hip")

    def __init__(self, *, channels_last: bool) -> None:
        self.channels_last = channels_last
        self.solver_id = f"direct-gpu-first-{'nhwc' if channels_last else 'nchw'}-fwd"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take packed tensors of few channels in one group, on GPUs."""
        if target.kind is DeviceKind.CPU:
            return Rejected(Reason.DEVICE_KIND, "is for GPUs")
        if problem.direction is not Direction.FORWARD:
            return Rejected(Reason.DIRECTION, f"{problem.direction} is not forward")
        if problem.dtype not in _DTYPES:
            return Rejected(Reason.DTYPE, f"not {problem.dtype}")
        if not (answer := judge_first(problem, channels_last=self.channels_last)):
            return answer
        overlaps = zip(problem.stride, problem.filter, strict=True)
        if all(step >= taps for step, taps in overlaps):
            return Rejected(Reason.STRIDE, "windows must overlap: patches are a matrix product")
        if target.max_work_group < _FEWEST_ITEMS:
            return Rejected(Reason.WORK_GROUP, f"needs {_FEWEST_ITEMS} work-items")
        if target.local_memory < 4 * _MOST_FLOATS:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {4 * _MOST_FLOATS} bytes")
        shape = window(problem)
        if shape.images * math.prod(shape.out) >= 2**31:
            return Rejected(Reason.SIZE_LIMIT, "positions of all images")
        if not any(_fits(shape, config, target) for config in _wanted(shape)):
            return Rejected(Reason.FILTER_SIZE, "what a tile takes does not fit local memory")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """All tensors moved once, and the sums, which overlap it but little."""
        memory = problem.traffic / _UNIT_BANDWIDTH
        peak = problem.flops / _UNIT_PEAK
        return max(peak / (memory + peak / _ARITHMETIC_SHARE), 0.02)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Return the largest of the usual tiles that fits local memory."""
        shape = window(problem)
        return next(config for config in _wanted(shape) if _fits(shape, config, target))

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Shapes of tiles."""
        shape = window(problem)
        return SearchSpace(
            (ROWS, QUADS, FILTER_ITEMS, STRIPS, COLUMNS, DEPTH),
            (
                Constraint(
                    "tile",
                    lambda config: _fits(shape, config, target),
                    "it has to fit work-group, registers and local memory",
                ),
            ),
        )

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch, no workspace."""
        shape = window(problem)
        chosen = config or self.default_config(problem, target)
        phase, row = _pitches(shape, chosen)
        is_wide = problem.dtype is DataType.FLOAT32 and shape.filters % 4 == 0
        macros = {
            "DTYPE": problem.dtype.upper(),
            **{name: value for name, value in shape.macros.items() if "FILTERS" not in name},
            **{name.upper(): value for name, value in chosen.items()},
            "CHANNELS_LAST": self.channels_last,
            "STORES_FOUR": self.channels_last and is_wide,
            "PHASE_FLOATS": phase,
            "ROW_FLOATS": row,
        }
        program = Program(
            KernelSource("convfind_solvers_direct", "kernels/gpu_first.cl"),
            defines=make_defines(macros),
        )
        items = _items(chosen)
        groups = (
            -(-shape.filters // _block(chosen)),
            -(-shape.out[1] // chosen.integer("columns")),
            -(-shape.out[0] // (chosen.integer("strips") * chosen.integer("rows"))),
            shape.images,
        )
        launch = Launch(
            KernelSpec(program, "direct_gpu_first"),
            (
                BufferArg(Memory.X),
                BufferArg(Memory.W),
                BufferArg(Memory.Y),
                f32(problem.alpha),
                f32(problem.beta),
                *map(i32, (shape.filters, *shape.size, *shape.out, *shape.padding)),
            ),
            (math.prod(groups) * items,),
            (items,),
        )
        return ConvSolution(self.solver_id, (launch,), config=chosen)


def _block(config: Config) -> int:
    """Filters of a work-group."""
    return 4 * config.integer("quads") * config.integer("filter_items")


def _items(config: Config) -> int:
    return math.prod(config.integer(name) for name in ("filter_items", "strips", "columns"))


def _pitches(shape: Window, config: Config) -> tuple[int, int]:
    """Floats of a phase and of a row in local memory: neighbouring items use other banks."""
    step, columns = shape.stride[1], config.integer("columns")
    phase = -(-shape.span(columns, 1) // step)
    # Copying writes the phases one after the other, which lie apart like the banks' shares.
    phase += (_BANKS // step - phase) % _BANKS if step > 1 else 0
    row = step * phase
    if config.integer("strips") == 1:
        return phase, row
    below = config.integer("rows") * shape.stride[0]
    wanted = (pitch for pitch in range(row, row + _BANKS) if below * pitch % _BANKS == columns)
    return phase, next(wanted, row)


def _fits(shape: Window, config: Config, target: Target) -> bool:
    """Whether a config's tile fits work-group, registers and local memory."""
    depth, rows = config.integer("depth"), config.integer("rows")
    if not _FEWEST_ITEMS <= _items(config) <= min(target.max_work_group, _MOST_ITEMS):
        return False
    if shape.channels % depth or shape.span(rows, 0) > _MOST_SPAN:
        return False
    image = shape.span(config.integer("strips") * rows, 0) * _pitches(shape, config)[1]
    weights = math.prod(shape.taps) * (_block(config) + 4)
    return depth * (image + weights) <= _MOST_FLOATS


def _wanted(shape: Window) -> Iterator[Config]:
    """Yield tiles in order of preference.

    Short sums wait for memory and want many work-groups on a unit, so few registers; long ones
    want many results in registers. Of square tiles less is copied.
    """
    step = shape.stride[0]
    is_long = shape.channels * math.prod(shape.taps) > _SHORT_SUM
    is_square = shape.out[1] <= 16 or step == 2 or not is_long
    tall = 7 if step > 2 or (step == 2 and not is_long) else 8
    if step == 1:
        tall = min((8, 7), key=lambda count: -(-shape.out[0] // count) * count)
    fours = -(-shape.filters // 4)
    quads = min(fours, 2) if is_long else 1
    limit = 4 if is_long and not is_square else 8
    blocks = -(-fours // (limit * quads))
    most = -(-fours // (blocks * quads))
    shared = min(share for share in FILTER_ITEMS.values if int(share) >= most)
    for share, rows, strips, depth in product(
        (shared, 4, 1),
        (tall, 4, 2, 1),
        (2, 1) if is_square and (step == 1 or is_long) else (1,),
        (shape.channels, 1),
    ):
        yield Config(
            rows=rows,
            quads=quads,
            filter_items=share,
            strips=strips,
            columns=16 if is_square else 32,
            depth=depth,
        )
