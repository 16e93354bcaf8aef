"""Implicit GEMM on GPUs: forward and the data gradient."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.kit.blocks import ALL_REGISTERS, round_up
from convfind.problem import ConvProblem
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import Memory, ScalarArg, i32
from convfind.types import DataType
from convfind_solvers_igemm.gpu.base import GpuSolver
from convfind_solvers_igemm.gpu.geometry import GpuGeometry
from convfind_solvers_igemm.gpu.tiles import Tile

#: Values of GATHER in gpu_gather.h.
_RUN, _CHANNELS, _POSITIONS, _TABLE = range(4)
#: Values of FILTER in gpu_filter.h.
_ONE, _FOUR_SOURCE, _FOUR_RESULT = range(3)
#: Taps that fit the mask.
_MOST_TAPS = 32
#: Channels behind the last one, as a share, from which on a table is quicker than whole blocks.
_MOST_WASTE = 0.25
#: Channels that a tile has at least.
_FEWEST_CHANNELS = 16
#: The share of a plain product's speed that gathering leaves.
_EFFICIENCY = {_RUN: 0.9, _CHANNELS: 1.0, _POSITIONS: 1.0, _TABLE: 0.7}
_ORDINARY = Tile(64, 64, 16, 8, 8)
#: Single elements are read best along so many positions.
_SHORT_LINE = 64
_SHORT_LINE_EFFICIENCY = 0.75
_SMALL_TABLE = 0.75
#: Compute capability from which on NVIDIA's GPUs copy past the registers.
_OLDEST_COPIES = 80
#: Results of the largest items that do so, and the most elements that one copies at a time.
_MOST_RESULTS, _MOST_COPIES = 64, 36
#: Registers where they do and sizes are compiled in: four work-groups of 128 items a unit.
_COPYING_REGISTERS = 128
#: Sums are not split into parts shorter than this.
_SHORTEST = 128


class ConvSolver(GpuSolver):
    """A result from a source and the weights."""

    _entry = "igemm_gpu_conv"
    _file = "gpu_conv"

    def mixes_values(self, problem: ConvProblem) -> bool:
        """Where all phases are computed at once: what one of them reads meets others' zeros."""
        return _is_fused(self._geometry(problem))

    def _reads(self, shape: GpuGeometry) -> tuple[str, str]:
        return shape.source, Memory.W

    def _macros(self, problem: ConvProblem, target: Target, tile: Tile) -> dict[str, DefineValue]:
        shape, fetches = self._geometry(problem), self._fetches(problem, target, tile)
        filters = _filter(shape, tile)
        return {
            "BACKWARD": shape.is_gradient,
            "FUSED": _is_fused(shape),
            "POINTWISE": shape.is_pointwise,
            "GATHER": _gather(shape, tile),
            "FILTER": _ONE if fetches and filters == _FOUR_SOURCE else filters,
            "FETCH": fetches,
            "WHOLE_SOURCE": shape.channels % tile.tile_k == 0,
            "WHOLE_RESULT": shape.filters % _extents(shape, tile)[0] == 0,
        }

    def _fetches(self, problem: ConvProblem, target: Target, tile: Tile) -> bool:
        """Whether what is read goes to local memory past the registers: FETCH of gpu_gather.h.

        This leaves registers for another work-group a unit, and where sizes are arguments it saves
        additions of wide addresses. Where they are compiled in, loads find more in an instruction
        than copies do, which takes items of few results longer.
        """
        if problem.dtype is not DataType.FLOAT32 or self.channels_last:
            return False
        if target.compute_capability < _OLDEST_COPIES or tile.staged > _MOST_COPIES:
            return False
        results = tile.block[0] * tile.block[1]
        suits = results == _MOST_RESULTS if self.fixed else results <= _MOST_RESULTS
        return suits and _gather(self._geometry(problem), tile) != _TABLE

    def _most_registers(self, problem: ConvProblem, target: Target, tile: Tile) -> int | None:
        if self._fetches(problem, target, tile):
            # With sizes as arguments some need more.
            return _COPYING_REGISTERS if self.fixed else ALL_REGISTERS
        return super()._most_registers(problem, target, tile)

    def _can_read(self, shape: GpuGeometry, tile: Tile) -> bool:
        channels, positions = _extents(shape, tile)
        most = tile.threads * (1 if _filter(shape, tile) == _ONE and shape.is_gradient else 4)
        if _gather(shape, tile) == _TABLE and tile.tile_k > 8 and not _is_slim(tile):
            return False
        return channels <= most and positions <= 4 * tile.threads

    def _tiling(self, shape: GpuGeometry, tile: Tile, parts: int) -> tuple[ScalarArg, ...]:
        return i32(_position_tiles(shape, tile)), i32(parts)

    def _count(self, shape: GpuGeometry, tile: Tile) -> int:
        channels, phases = shape.filters, shape.phases
        if _is_fused(shape):
            channels, phases = channels * phases, 1
        channel_tiles = -(-channels // _extents(shape, tile)[0])
        return channel_tiles * _position_tiles(shape, tile) * shape.groups * phases

    def _steps(self, shape: GpuGeometry) -> float:
        if _is_fused(shape):
            return shape.channels * (shape.fused_taps or 1)
        return shape.channels * shape.taps / shape.phases

    def _most_parts(self, shape: GpuGeometry, tile: Tile, target: Target) -> int:
        # No workspace where ordinary tiles fill the device.
        if self._count(shape, _ORDINARY) >= 2 * target.compute_units:
            return 1
        return max(1, int(self._steps(shape)) // _SHORTEST)

    def _spreads(self, shape: GpuGeometry, tile: Tile) -> bool:
        # The others read in ways that take far more registers than are worth a work-group.
        whole = shape.filters % 4 == 0 and not _is_fused(shape)
        return whole and super()._spreads(shape, tile)

    def _has_all_registers(self, problem: ConvProblem, shape: GpuGeometry, tile: Tile) -> bool:
        # All phases of halves at once: three work-groups a unit cost a few spilled registers.
        is_half = problem.dtype in (DataType.FLOAT16, DataType.BFLOAT16)
        squeezed = is_half and tile.squeezed and _is_fused(shape)
        return squeezed or super()._has_all_registers(problem, shape, tile)

    def _efficiency(self, shape: GpuGeometry, tile: Tile) -> float:
        gather = _gather(shape, tile)
        short = gather in (_RUN, _TABLE) and _extents(shape, tile)[1] < _SHORT_LINE
        efficiency = _EFFICIENCY[gather] * (_SHORT_LINE_EFFICIENCY if short else 1.0)
        # Looking up pays the more, the more results each item has.
        large = tile.block[0] * tile.block[1] >= 128
        return efficiency * _SMALL_TABLE if gather == _TABLE and not large else efficiency


def _is_slim(tile: Tile) -> bool:
    """Return whether registers are left for looking up where things lie."""
    return tile.threads <= 64 and tile.staged <= 32


def _extents(shape: GpuGeometry, tile: Tile) -> tuple[int, int]:
    """Channels and positions of a tile."""
    if shape.channels_last:
        return tile.tile_n, tile.tile_m
    return tile.tile_m, tile.tile_n


def _position_tiles(shape: GpuGeometry, tile: Tile) -> int:
    counts = shape.fused_counts if _is_fused(shape) else shape.phase_counts
    return -(-shape.images * math.prod(counts) // _extents(shape, tile)[1])


def _is_fused(shape: GpuGeometry) -> bool:
    """Return whether to compute all phases of the data gradient at once, each with the taps of any.

    This fills a tile with few channels better, but multiplies by zeros.
    """
    if shape.phases == 1:
        return False
    taps = shape.fused_taps
    if taps is None or taps > _MOST_TAPS:
        return False
    if _wastes(shape.channels, 16):
        return False
    separate = round_up(shape.filters, _FEWEST_CHANNELS) * shape.taps
    return round_up(shape.filters * shape.phases, _FEWEST_CHANNELS) * taps < separate


def _wastes(channels: int, block: int) -> bool:
    """Return whether whole blocks of channels are slower than a table."""
    return round_up(channels, block) - channels > _MOST_WASTE * channels


def _gather(shape: GpuGeometry, tile: Tile) -> int:
    channels = shape.channels
    taps = shape.taps if not _is_fused(shape) else 1
    if taps > _MOST_TAPS or _wastes(channels, tile.tile_k):
        return _TABLE
    if shape.channels_last:
        return _CHANNELS if channels % 4 == 0 else _RUN
    return _POSITIONS if shape.is_pointwise else _RUN


def _filter(shape: GpuGeometry, tile: Tile) -> int:
    if (
        _gather(shape, tile) == _TABLE
        or _is_fused(shape)
        or (shape.taps > 1 and not shape.channels_last)
    ):
        return _ONE
    if shape.is_gradient:
        return _FOUR_RESULT if shape.filters % 4 == 0 else _ONE
    return _FOUR_SOURCE if shape.channels % 4 == 0 else _ONE
