"""Implicit GEMM on CPUs along the rows of y: what a tile reads is copied once."""

from __future__ import annotations

import math
from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import BROADCAST, fill
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.defines import Defines, make_defines
from convfind.types import Direction
from convfind_solvers_igemm.blocking import Product
from convfind_solvers_igemm.cpu.conv import Costs, CpuProduct
from convfind_solvers_igemm.cpu.geometry import CpuGeometry
from convfind_solvers_igemm.cpu.solver import CACHED_FLOATS, VECTOR

#: Channels of a block where the window has several taps.
_BLOCK = 64
#: Where it has one: a power of two, so many that a tile's fit into a part of the level-1 cache.
_PLAIN_STRIP_FLOATS = 6144
#: So few channels lie side by side in the strip, for all taps of a line at once.
_FEW_CHANNELS = 8
_MOST_TAPS = 64
_STRIP_FLOATS = 16384
#: The share of the peak: vectors end with the rows, and a strip is copied for each tile.
_BEST_SHARE = 0.65
#: Gathered data is copied once for all taps; channels first it comes from a plane each.
_FIRST_COSTS = Costs(source=100.0, result=120.0, gathered=10.0)
_LAST_COSTS = Costs(source=30.0, result=10.0, gathered=10.0)


class CpuRows(CpuProduct):
    """Tiles of neighbouring positions in a row of y; windows small enough for the strip."""

    form = "rows"
    _kernel = "cpu_rows"
    _tile = BROADCAST

    def __init__(self, direction: Direction, *, channels_last: bool) -> None:
        self._costs = _LAST_COSTS if channels_last else _FIRST_COSTS
        super().__init__(direction, channels_last=channels_last)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what the other solvers take, if the pixels of a tile fit into the strip."""
        if not (answer := super().applicability(problem, target)):
            return answer
        taps = math.prod(problem.filter)
        if taps > _MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"at most {_MOST_TAPS} taps, not {taps}")
        floats = self._strip_floats(problem, BROADCAST.of(target)[0])
        if floats > _STRIP_FLOATS:
            return Rejected(Reason.DILATION, f"a tile reads {floats} floats, over {_STRIP_FLOATS}")
        return APPLICABLE

    def _share(self, shape: CpuGeometry, target: Target) -> float:
        rows, filters = self._units(target)
        along = -(-shape.out[2] // (shape.stride[2] if shape.is_gradient else 1))
        return _BEST_SHARE * fill(along, rows) * fill(shape.filters, filters)

    def _defines(self, shape: CpuGeometry, target: Target) -> Defines:
        rows, vectors = BROADCAST.of(target)
        joined = self._is_joined(shape)
        return make_defines(
            CHANNELS_LAST=self.channels_last,
            MR=rows,
            VECTORS=vectors,
            DEPTH=_depth(shape.taps, shape.channels, rows),
            GRADIENT=shape.is_gradient,
            JOINED=joined,
            **({"PITCH": shape.stride[2] * shape.channels} if joined else {}),
        )

    def _product(self, shape: CpuGeometry, target: Target) -> Product:
        rows, unit = self._units(target)
        steps = shape.stride if shape.is_gradient else (1, 1, 1)
        depth, height, width = (
            -(-size // step) for size, step in zip(shape.out, steps, strict=True)
        )
        return Product(
            shape.images * depth * height * -(-width // rows) * rows,
            shape.filters,
            shape.groups * shape.reached_phases,
            rows,
            unit,
            max(1, CACHED_FLOATS // (shape.taps * self._block(shape, rows)) // unit) * unit,
        )

    def _counted_in(self, product: Product) -> int:
        return product.position_unit

    def _geometry(self, problem: ConvProblem) -> CpuGeometry:
        """The stride along w is a part of the program, even where there is one position."""
        shape = super()._geometry(problem)
        if not self._is_joined(shape):
            return shape
        return replace(shape, stride=(*shape.stride[:2], problem.stride[-1]))

    def _is_joined(self, shape: CpuGeometry) -> bool:
        """All channels of a line's taps lie side by side."""
        return (
            self.channels_last
            and not shape.is_gradient
            and shape.groups == 1
            and shape.channels <= _FEW_CHANNELS
            and shape.taps > 1
            and shape.dilation[2] == 1
        )

    def _block(self, shape: CpuGeometry, rows: int) -> int:
        """Channels that are summed at a time."""
        if self._is_joined(shape):
            return shape.channels
        return min(shape.channels, _depth(shape.taps, shape.channels, rows))

    def _strip_floats(self, problem: ConvProblem, rows: int) -> int:
        """A bound on what the strip of a tile holds, quick to compute."""
        *outer, taps = problem.filter
        lines = math.prod(outer)
        stride = problem.stride[-1] if problem.y_shape[-1] > 1 else 1
        forward = self.direction is Direction.FORWARD
        channels = problem.w_shape[1] if forward else problem.w_shape[0] // problem.groups
        pixels = (rows - 1) * (problem.stride[-1] if forward else stride) + taps
        joined = lines * (pixels * channels + VECTOR) + VECTOR
        classes = min(taps, stride) if forward else 1
        slots = classes * (rows + (taps - 1) * problem.dilation[-1] // stride)
        blocks = lines * slots * (_depth(lines * taps, channels, rows) + VECTOR)
        return max(blocks, joined if channels <= _FEW_CHANNELS else 0)


def _depth(taps: int, channels: int, rows: int) -> int:
    """Channels that a pixel of the strip has room for."""
    if taps == 1:
        return 1 << (_PLAIN_STRIP_FLOATS // rows).bit_length() - 1
    return VECTOR if channels <= VECTOR else _BLOCK
