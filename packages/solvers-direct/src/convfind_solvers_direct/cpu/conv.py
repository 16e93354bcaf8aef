"""Few channels a group on CPUs: forward and backward-data."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, cpu_index, even_parts, has_many_registers, round_up
from convfind.kit.pixel_pitch import has_only_pitches, pixel_pitches, without_gaps
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe, i64
from convfind.types import Direction
from convfind_solvers_direct.cpu.solver import BALANCE, VECTOR, CpuSolver, items_wanted, program_of
from convfind_solvers_direct.window import Window, judge, window

#: Floats of the copied rows: half of them are in the level-1 cache.
STRIP_FLOATS = 16384
#: Taps that code is unrolled over.
MOST_TAPS = 81
#: Channels first, vectors of sums that registers hold beside what they are made of, of 32 registers
#: of 16 floats and of 16 of 8; filters and rows of tiles, best first.
_MANY_SUMS = 24, ((8, 1), (4, 2), (2, 5), (1, 7))
_FEW_SUMS = 6, ((4, 1), (2, 2), (1, 4))
#: Results of a depthwise convolution at a time, half a vector of channels each.
_RESULTS = 8
#: Those of a channel, which share it in a vector.
_FILTERS = (1, 2, 4, 8)
#: Source places that such results take, at most: code is unrolled over them.
_MOST_PLACES = 256
#: The share of the time that is not spent on edges.
_BUSY_SHARE = 0.6


class CpuDirect(CpuSolver):
    """A float32 convolution with few channels a group in one direction and family of layouts."""

    prefix = "direct-cpu"
    version = 2

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few channels a group."""
        return judge(problem) and self._judge_sizes(window(problem))

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The share of time that arithmetic takes, if all tensors are moved once."""
        operations = (problem.flops + BALANCE * problem.traffic) / _BUSY_SHARE
        return cpu_index(problem, target, operations)

    def _judge_sizes(self, shape: Window) -> Applicability:
        """Judge what depends on the layout: channels last, whether lanes find their channels."""
        if not self.channels_last:
            if strip_rows(shape, step_rows(shape)) < step_rows(shape):
                return Rejected(Reason.SIZE_LIMIT, "rows that a result takes do not fit the cache")
        elif not self._finds_channels(shape):
            return Rejected(
                Reason.CHANNELS,
                f"1, 2, 4 or 8 a group on both sides, not {shape.channels} and {shape.filters}",
            )
        return APPLICABLE

    def _finds_channels(self, shape: Window) -> bool:
        """Whether the lanes of a vector find their channels: as many on both sides, or one in x."""
        of_x = shape.filters if shape.is_gradient else shape.channels
        is_spread = of_x == 1 and self.direction is not Direction.FORWARD
        is_even = shape.channels == shape.filters
        return VECTOR % max(shape.channels, shape.filters) == 0 and (is_even or is_spread)


class CpuPlanes(CpuDirect):
    """Channels first: vectors along rows."""

    channels_last = False

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch, no workspace."""
        shape = window(problem)
        filters, rows, vectors = _planes_tile(shape, many_registers=has_many_registers(target))
        epilogue = Epilogue.of(problem)
        program = program_of(
            "cpu_planes",
            shape,
            ROWS=rows,
            STRIP_FLOATS=STRIP_FLOATS,
            FILTERS_AT_ONCE=filters,
            VECTORS=vectors,
            **epilogue.defines,
        )
        sets = shape.images * shape.groups
        runs, share = even_parts(sets, items_wanted(target))
        launch = Grid(program, "direct_cpu_planes", runs)(
            *(shape.source, Memory.W, shape.result),
            *epilogue.arguments,
            *(i64(sets), shape.groups),
            *(*shape.size, *shape.out, *shape.padding, shape.shift[0]),
            *(i64(share), strip_rows(shape, rows), row_floats(shape)),
        )
        return Recipe(self.solver_id, (launch,))


class CpuPixels(CpuDirect):
    """Channels last: vectors along channels."""

    version = 4
    domain = replace(CpuDirect.domain, traits=CpuDirect.domain.traits | {Trait.GAPS})
    channels_last = True

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take gaps between pixels and several filters, too, where groups have one channel."""
        if not (answer := judge(problem)):
            return answer
        if not _is_depthwise(problem, target):
            if not (answer := self._judge_sizes(window(problem))):
                return answer
            if not problem.is_packed:
                return Rejected(Reason.NON_PACKED, "gaps are for one channel a group, forward")
        return has_only_pitches(problem)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The index of packed tensors: gaps are not moved."""
        return super().wti(without_gaps(problem), target)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch that puts the weights in order, and one that computes."""
        if _is_depthwise(problem, target):
            return self._depthwise(problem, target)
        shape = window(problem)
        rows, columns = _pixels_tile(shape, many_registers=has_many_registers(target))
        epilogue = Epilogue.of(problem)
        channels = shape.groups * shape.channels
        program = program_of(
            "cpu_pixels",
            shape,
            ROWS=rows,
            COLUMNS=columns,
            PARTIAL=channels % VECTOR != 0,
            UNROLLED=shape.taps * shape.filters <= MOST_TAPS,
            **epilogue.defines,
        )
        pack = Grid(program, "direct_cpu_pack", -(-channels // VECTOR))(
            *(Memory.W, Memory.PACKED, channels)
        )
        bands = -(-(shape.out[0] + shape.shift[0]) // rows)
        runs, strips = even_parts(bands, -(-items_wanted(target) // shape.images))
        compute = Grid(program, "direct_cpu_pixels", (shape.images, runs))(
            *(shape.source, Memory.PACKED, shape.result),
            *epilogue.arguments,
            *(channels, *shape.size, *shape.out, *shape.padding, *shape.shift),
            strips,
        )
        packed = 4 * round_up(channels, VECTOR) * shape.filters * shape.taps
        return Recipe(self.solver_id, (compute,), prepare=(pack,), packed=packed)

    def _depthwise(self, problem: ConvProblem, target: Target) -> Recipe:
        """The same by a kernel for one channel a group, pixels any distance apart."""
        shape, epilogue = window(problem), Epilogue.of(problem)
        channels = shape.groups * shape.filters
        pitches = pixel_pitches(problem)
        assert pitches is not None
        rows, columns = _depthwise_tile(shape)
        program = program_of("cpu_depthwise", shape, ROWS=rows, COLUMNS=columns, **epilogue.defines)
        pack = Grid(program, "direct_cpu_pack", -(-channels // VECTOR))(
            *(Memory.W, Memory.PACKED, channels)
        )
        bands = -(-shape.out[0] // rows)
        runs, strips = even_parts(bands, -(-items_wanted(target) // shape.images))
        compute = Grid(program, "direct_cpu_depthwise", (shape.images, runs))(
            *(Memory.X, Memory.PACKED, Memory.Y),
            *epilogue.arguments,
            *(channels, *shape.size, *shape.out, *shape.padding),
            *(strips, *pitches),
        )
        packed = 4 * round_up(channels, VECTOR) * shape.taps
        return Recipe(self.solver_id, (compute,), prepare=(pack,), packed=packed)


def _is_depthwise(problem: ConvProblem, target: Target) -> bool:
    """Whether the kernel for one channel a group is the faster one, or the only one."""
    shape = window(problem)
    is_narrow = shape.channels == 1 and shape.filters in _FILTERS
    if shape.is_gradient or not is_narrow or shape.taps > MOST_TAPS:
        return False
    rows, columns = _depthwise_tile(shape)
    if shape.span(rows, 0) * shape.span(columns, 1) > _MOST_PLACES:
        return False
    return shape.filters > 1 or not problem.is_packed or not has_many_registers(target)


def _depthwise_tile(shape: Window) -> tuple[int, int]:
    """Rows and columns of the result at a time."""
    rows = 1 if shape.window[0] == 1 else 2
    return rows, _RESULTS // rows


def step_rows(shape: Window) -> int:
    """Rows of the result at a time, channels first, on any CPU: whole strides of a gradient."""
    return max(_planes_tile(shape, many_registers=many)[1] for many in (False, True))


def _planes_tile(shape: Window, *, many_registers: bool) -> tuple[int, int, int]:
    """Filters, which share what is read, rows and vectors of the result, channels first."""
    most, tiles = _MANY_SUMS if many_registers else _FEW_SUMS
    vectors = 2 if many_registers and shape.taps <= MOST_TAPS else 1  # share weights
    for filters, rows in tiles:
        steps = _steps(shape, 0, rows)
        if shape.filters % filters == 0 and filters * steps * vectors <= most:
            return filters, steps, vectors
    return 1, _steps(shape, 0, rows), vectors


def _pixels_tile(shape: Window, *, many_registers: bool) -> tuple[int, int]:
    """Rows and columns of the result at a time, channels last."""
    small = shape.taps <= 9
    # Strided windows share little; more results leave the level-1 cache.
    is_spread = max(shape.stride) > 1 and not shape.is_gradient
    if many_registers:
        rows, columns = (2, 2) if small and is_spread else (4, 4) if small else (2, 8)
    else:
        rows, columns = (3, 2) if small else (1, 4)
    return _steps(shape, 0, rows), _steps(shape, 1, columns)


def strip_rows(shape: Window, rows: int) -> int:
    """Rows of the result, a multiple of ``rows``, whose source rows fit; 0 if none do."""
    room = STRIP_FLOATS // (shape.channels * copied_row(shape))
    strips = -(-(shape.out[0] + shape.shift[0]) // rows)
    if shape.size[0] <= room:
        return strips * rows
    while strips and shape.span(strips * rows, 0) > room:
        strips -= 1
    return strips * rows


def copied_row(shape: Window) -> int:
    """Floats of a copied row, all phases."""
    return row_floats(shape) * (1 if shape.is_gradient else shape.stride[1])


def row_floats(shape: Window) -> int:
    """Floats of a phase of a copied row: what vectors read, zeros around it included."""
    reach = (shape.window[1] - 1) * shape.dilation[1]
    read = -(-shape.out[1] // VECTOR) * VECTOR
    if shape.is_gradient:
        floats = max(read + shape.padding[1], (shape.size[1] - 1) * shape.stride[1] + 1) + reach
    else:
        written = (shape.size[1] + shape.padding[1]) // shape.stride[1] + 1
        floats = max(read + reach // shape.stride[1] + 1, written)
    return -(-floats // VECTOR) * VECTOR


def _steps(shape: Window, axis: int, wanted: int) -> int:
    """Results at a time along an axis: whole strides of a gradient, one where there is no axis."""
    step = shape.stride[axis] if shape.is_gradient else 1
    if shape.window[axis] == 1 and step == 1 and axis == 0:
        return 1
    return -(-wanted // step) * step
