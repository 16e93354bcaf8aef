"""Few channels a group on CPUs: the weight gradient."""

from __future__ import annotations

from abc import abstractmethod

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, even_parts, has_many_registers, parts_within
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Memory, Recipe, ScalarArg, i32, i64
from convfind.types import Direction
from convfind_solvers_direct.cpu.conv import STRIP_FLOATS, CpuDirect, row_floats, strip_rows
from convfind_solvers_direct.cpu.solver import VECTOR, items_wanted, program_of
from convfind_solvers_direct.window import Window, window

#: Vectors of sums that an item keeps in registers: of 32 of 16 floats, and of 16 of 8.
_MOST_SUMS, _FEW_SUMS = 27, 6
#: Channels last, rows and columns of y at a time: of small filters, of these with strides, whose
#: windows share little, or groups, whose channels are exchanged, and of large ones or where there
#: are registers for a row of taps.
_PIXELS, _PIXELS_OF_STRIDED, _PIXELS_OF_LARGE = (3, 2), (2, 2), (1, 4)
#: Channels first, vectors of sums that an item has room for: those of a source channel.
_MOST_TOTALS = 4096
#: Floats of the narrowest vectors, how many of their sums 16 registers hold beside what they are
#: made of, and floats of copied pixels that stay in the level-1 cache.
_NARROW, _FEW_NARROW_SUMS, _CACHED_FLOATS = 8, 12, 6144
#: How fast groups of 8 are by their own solver, over the other, where 32 registers hold its sums.
_SPEED_OF_GROUPS = 0.85

#: Parts, global size, and arguments behind the sizes.
_Plan = tuple[int, tuple[int, ...], tuple[ScalarArg, ...]]


class CpuWeights(CpuDirect):
    """w from x and y: sums of parts, added up by a second launch in a fixed order."""

    direction = Direction.BACKWARD_WEIGHTS

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch for the parts, and one that adds them up."""
        shape = window(problem)
        parts, sizes, more = self._plan(shape, target, limit)
        program = self._program(shape, target)
        sums = Grid(program, "direct_cpu_weights", sizes)(
            *(Memory.X, Memory.Y, Memory.WORKSPACE),
            *(shape.images, shape.groups, *shape.size, *shape.out, *shape.padding),
            *more,
        )
        runs = shape.groups * shape.filters if self.channels_last else problem.elements("w")
        add_up = Grid(program, "direct_cpu_sum", -(-runs // VECTOR))(
            *(Memory.WORKSPACE, Memory.W),
            *Epilogue.of(problem).arguments,
            *(shape.groups, parts),
        )
        workspace = parts * self._part_bytes(shape)
        return Recipe(self.solver_id, (sums, add_up), workspace=workspace)

    @abstractmethod
    def _program(self, shape: Window, target: Target) -> Program: ...

    @abstractmethod
    def _plan(self, shape: Window, target: Target, limit: Limit) -> _Plan:
        """Return the parts, the global size, and the arguments that depend on the layout."""

    def _part_bytes(self, shape: Window) -> int:
        filters = shape.groups * shape.filters
        if self.channels_last:
            filters = -(-filters // VECTOR) * VECTOR
        return 4 * filters * shape.channels * shape.taps

    def _most_parts(self, shape: Window, target: Target, limit: Limit) -> int:
        """Parts that keep all cores busy and fit a limit of bytes."""
        return parts_within(limit, items_wanted(target), self._part_bytes(shape))


class CpuPlanesWeights(CpuWeights):
    """Channels first."""

    channels_last = False

    def _judge_sizes(self, shape: Window) -> Applicability:
        """Judge also whether the sums of an item's filters fit its private memory."""
        sums = shape.filters * shape.taps
        if sums > _MOST_TOTALS:
            return Rejected(Reason.FILTER_SIZE, f"{sums} sums, more than {_MOST_TOTALS}")
        return super()._judge_sizes(shape)

    def _program(self, shape: Window, target: Target) -> Program:
        height, width = shape.window
        most = _MOST_SUMS if has_many_registers(target) else _FEW_SUMS
        # Filters share what is read of x.
        shared = (f for f in (4, 2) if shape.filters % f == 0 and f * width <= most)
        filters = next(shared, 1)
        chunk = min(height, max(1, most // (filters * width)))
        return program_of(
            "cpu_weights_planes",
            shape,
            CHUNK=chunk,
            FILTERS_AT_ONCE=filters,
            STRIP_FLOATS=STRIP_FLOATS,
        )

    def _plan(self, shape: Window, target: Target, limit: Limit) -> _Plan:
        most = self._most_parts(shape, target, limit)
        # Groups are shared out first: they need no workspace.
        runs, share = even_parts(shape.groups, items_wanted(target))
        most = max(1, min(most, shape.images, items_wanted(target) // runs))
        span = -(-shape.images // most)
        parts = -(-shape.images // span)
        more = tuple(map(i32, (share, span, strip_rows(shape, 1), row_floats(shape))))
        return parts, (runs, parts), more


class CpuPixelsWeights(CpuWeights):
    """Channels last."""

    version = 4
    channels_last = True

    def _program(self, shape: Window, target: Target) -> Program:
        rows, columns, chunk = _pixels_tile(shape, target)
        return program_of("cpu_weights_pixels", shape, CHUNK=chunk, ROWS=rows, COLUMNS=columns)

    def _plan(self, shape: Window, target: Target, limit: Limit) -> _Plan:
        rows, _, _ = _pixels_tile(shape, target)
        parts, share = self._parts_of_rows(shape, target, limit, rows)
        return parts, (parts,), (i64(share),)

    def _parts_of_rows(
        self, shape: Window, target: Target, limit: Limit, rows: int
    ) -> tuple[int, int]:
        """Return the parts and how many times ``rows`` rows of y of an image each takes."""
        strips = shape.images * -(-shape.out[0] // rows)
        return even_parts(strips, self._most_parts(shape, target, limit))


class CpuGroupsWeights(CpuPixelsWeights):
    """Channels last, groups of 8: an element of y meets all source channels of its group."""

    version = 1
    form = "groups"

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """As the solver of all groups; less where that one has the registers that it needs."""
        share = super().wti(problem, target)
        if share is None or not has_many_registers(target):
            return share
        return _SPEED_OF_GROUPS * share

    def _judge_sizes(self, shape: Window) -> Applicability:
        """Take groups of 8 whose copied rows have room."""
        if (shape.channels, shape.filters) != (_NARROW, _NARROW):
            answer = f"8 a group on both sides, not {shape.channels} and {shape.filters}"
            return Rejected(Reason.CHANNELS, answer)
        if shape.window[1] > _FEW_NARROW_SUMS:
            return Rejected(Reason.FILTER_SIZE, f"at most {_FEW_NARROW_SUMS} taps along a row")
        if _copied_rows(shape, STRIP_FLOATS) < 1:
            return Rejected(Reason.SIZE_LIMIT, "rows that a row of y takes do not fit the cache")
        return APPLICABLE

    def _program(self, shape: Window, target: Target) -> Program:
        most = _MOST_SUMS if has_many_registers(target) else _FEW_NARROW_SUMS
        filters = next(count for count in (8, 4, 2, 1) if count * shape.window[1] <= most)
        return program_of(
            "cpu_weights_groups", shape, FILTERS_AT_ONCE=filters, STRIP_FLOATS=STRIP_FLOATS
        )

    def _plan(self, shape: Window, target: Target, limit: Limit) -> _Plan:
        rows = max(1, min(shape.out[0], _copied_rows(shape, _CACHED_FLOATS)))
        parts, share = self._parts_of_rows(shape, target, limit, rows)
        return parts, (parts,), (i64(share), i32(rows))


def _pixels_tile(shape: Window, target: Target) -> tuple[int, int, int]:
    """Rows and columns of y, and rows of taps, at a time, channels last."""
    height, width = shape.window
    chunk = min(height, max(1, _MOST_SUMS // width))
    is_plain = max(shape.stride) == 1 and shape.channels == 1
    is_short = shape.channels == 1 and not has_many_registers(target)
    if height * width > 9 or (is_plain and is_short):
        return *_PIXELS_OF_LARGE, 1 if is_short else chunk
    rows, columns = _PIXELS if is_plain else _PIXELS_OF_STRIDED
    return min(rows, height), columns, chunk


def _copied_rows(shape: Window, floats: int) -> int:
    """Rows of y that have room with the rows of x that they take, of two groups."""
    pitch, step = shape.span(shape.out[1], 1), shape.stride[0]
    more = shape.span(1, 0) - step
    return (floats // VECTOR - more * pitch) // (step * pitch + shape.out[1])
