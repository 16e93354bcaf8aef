"""Convolutions with few output channels on CPUs: first layers' image gradient, last layers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, cpu_index, even_parts, fill, has_many_registers
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.types import Direction
from convfind_solvers_direct.cpu.first import judge_first
from convfind_solvers_direct.cpu.solver import VECTOR, CpuSolver, items_wanted, program_of
from convfind_solvers_direct.window import Window, window

#: Room for copied rows of the source and for sums, in floats.
_STRIP_FLOATS, _SUM_FLOATS, _LINE_FLOATS = 65536, 16384, 8192
#: The bytes that these should take, channels first, to be fetched from the level-1 cache.
_ROOM = 8192
#: Registers for sums, and for these and the weights of a column of taps: of 32 of 16 floats, and
#: pairs of 16 of 8.
_MANY, _FEW = (15, 30), (8, 16)
#: Vectors at a time of a row alone.
_VECTORS = 4
#: The share of the peak that leaves edges and copies out.
_BEST_SHARE = 0.7
#: FLOP that a core does while it fetches a byte ahead.
_BALANCE = 20
#: Sums of all phases of a row, that shuffles put side by side.
_MOST_LINES = 16


@dataclass(frozen=True, slots=True)
class _Part:
    """Columns of a phase and filters at a time; floats of a copied row."""

    columns: int
    block: int
    pitch: int


class CpuNarrow(CpuSolver):
    """Few channels of the result, each row of the source copied once for all of them.

    Forward, of stride 1, is the gradient with the taps in the opposite order.
    """

    domain = CpuSolver.domain.without(Trait.GROUPS)

    def __init__(self, direction: Direction, *, channels_last: bool) -> None:
        self.prefix = "direct-cpu-first"
        if direction is Direction.FORWARD:
            self.prefix = "direct-cpu-last"
            self.domain = self.domain.without(Trait.STRIDE)
        super().__init__(direction, channels_last=channels_last)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few result channels."""
        if not (answer := judge_first(problem, last=self.direction is Direction.FORWARD)):
            return answer
        shape = _as_gradient(problem)
        if (lines := self._lines(shape)) > _MOST_LINES:
            return Rejected(Reason.STRIDE, f"{lines} sums side by side, at most {_MOST_LINES}")
        if any(self._most_columns(shape, many) < self._unit(shape, many) for many in (False, True)):
            return Rejected(Reason.SIZE_LIMIT, "rows that a result takes do not fit the cache")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The share of the peak, memory fetched meanwhile, times the part of sums that count."""
        shape = _as_gradient(problem)
        rows, columns = _places(shape)
        many = has_many_registers(target)
        unit = self._rows(shape, many) // shape.stride[0]
        filled = fill(rows, unit) * fill(columns, self._unit(shape, many))
        operations = max(problem.flops / _BEST_SHARE, _BALANCE * problem.traffic) / filled
        return cpu_index(problem, target, operations, launches=2)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch; forward another one before, that puts the weights in order."""
        shape = _as_gradient(problem)
        many = has_many_registers(target)
        rows, part = self._rows(shape, many), self._part(shape, many)
        forward = self.direction is Direction.FORWARD
        epilogue = Epilogue.of(problem)
        program = program_of(
            "cpu_narrow",
            replace(shape, channels=1),
            CHANNELS_LAST=self.channels_last,
            ROWS=rows,
            VECTORS=self._unit(shape, many) // VECTOR,
            STRIP_FLOATS=_STRIP_FLOATS,
            SUM_FLOATS=_SUM_FLOATS,
            LINE_FLOATS=_LINE_FLOATS,
            **epilogue.defines,
        )
        bands = -(-_places(shape)[0] * shape.stride[0] // rows)
        runs, share = even_parts(bands, -(-items_wanted(target) // shape.images))
        launch = Grid(program, "direct_cpu_narrow", (shape.images, runs))(
            *(
                Memory.X if forward else Memory.Y,
                Memory.PACKED if forward else Memory.W,
                Memory.Y if forward else Memory.X,
            ),
            *epilogue.arguments,
            *(shape.channels, *shape.size, *shape.out, *shape.padding),
            *(share, bands, part.block, part.columns, part.pitch),
        )
        if not forward:
            return Recipe(self.solver_id, (launch,))
        pack = Grid(program, "direct_cpu_narrow_pack", -(-shape.channels // VECTOR))(
            *(Memory.W, Memory.PACKED, shape.channels)
        )
        packed = problem.nbytes("w")
        return Recipe(self.solver_id, (launch,), prepare=(pack,), packed=packed)

    def _lines(self, shape: Window) -> int:
        """Sums side by side in the result: of each phase, channels last of each channel."""
        return shape.stride[1] * (shape.filters if self.channels_last else 1)

    def _unit(self, shape: Window, many_registers: bool) -> int:
        """Columns of a phase at a time: more where there is one row only."""
        return _VECTORS * VECTOR if self._rows(shape, many_registers) == 1 else VECTOR

    def _rows(self, shape: Window, many_registers: bool) -> int:
        """Rows at a time: of a phase what fits the registers beside weights of a column."""
        if shape.window[0] == shape.stride[0] == 1:
            return 1
        most, registers = _MANY if many_registers else _FEW
        weights = shape.filters * -(-shape.window[0] // shape.stride[0])
        sums = min(max(registers - weights, most // 2), most)
        return sums // shape.filters * shape.stride[0]

    def _most_columns(self, shape: Window, many_registers: bool) -> int:
        """Columns of a phase for which there is room for the sums and rows."""
        rows = self._rows(shape, many_registers)
        filters = VECTOR if self.channels_last else 1
        columns = (_STRIP_FLOATS // filters - VECTOR) // shape.span(rows, 0)
        return min(
            _SUM_FLOATS // (shape.filters * rows * shape.stride[1]),
            (_LINE_FLOATS - VECTOR) // self._lines(shape),
            columns - _reach(shape) - 2 * VECTOR,
        )

    def _part(self, shape: Window, many_registers: bool) -> _Part:
        """Return the part of a band that fits, all as large."""
        unit = self._unit(shape, many_registers)
        units = -(-_places(shape)[1] // unit)
        parts = -(-units // (self._most_columns(shape, many_registers) // unit))
        columns = -(-units // parts) * unit
        pitch = -(-(columns + _reach(shape)) // VECTOR) * VECTOR + VECTOR
        if self.channels_last:
            return _Part(columns, VECTOR, pitch)
        block = _ROOM // (shape.span(self._rows(shape, many_registers), 0) * pitch)
        return _Part(columns, max(1, min(block, VECTOR)), pitch)


def _as_gradient(problem: ConvProblem) -> Window:
    """Return the window of the gradient that has the sums of the problem: forward of stride 1."""
    shape = window(problem)
    if shape.is_gradient:
        return shape
    turned = replace(shape, is_gradient=True)
    return replace(turned, padding=turned.zeros_before)


def _reach(shape: Window) -> int:
    """Columns of the source before the one that the first tap meets."""
    return (shape.window[1] - 1) // shape.stride[1]


def _places(shape: Window) -> tuple[int, ...]:
    """Rows and columns of a phase of x, those of other phases beside them included."""
    return tuple(
        (size - 1 + pad) // step - pad // step + 1
        for size, pad, step in zip(shape.out, shape.padding, shape.stride, strict=True)
    )
