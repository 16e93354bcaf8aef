"""Implicit GEMM on GPUs: the weight gradient."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import Memory, ScalarArg, i32
from convfind.types import Direction
from convfind_solvers_igemm.gpu.base import GpuSolver
from convfind_solvers_igemm.gpu.geometry import GpuGeometry
from convfind_solvers_igemm.gpu.tiles import Tile

#: Values of GATHER in gpu_weights.cl.
_RUN, _CHANNELS, _TABLE = 0, 1, 3
#: The share of a plain product's speed that gathering leaves.
_EFFICIENCY = {_RUN: 0.95, _CHANNELS: 1.0, _TABLE: 0.65}
#: Sums are not split into parts shorter than this.
_SHORTEST = 256


class WeightsSolver(GpuSolver):
    """w from x and y."""

    direction = Direction.BACKWARD_WEIGHTS
    _entry = "igemm_gpu_weights"
    _file = "gpu_weights"

    def _reads(self, shape: GpuGeometry) -> tuple[str, str]:
        return Memory.X, Memory.Y

    def _macros(self, problem: ConvProblem, target: Target, tile: Tile) -> dict[str, DefineValue]:
        shape = self._geometry(problem)
        return {
            "GATHER": _gather(shape, tile),
            "WHOLE_RESULT": shape.filters % tile.tile_m == 0,
        }

    def _can_read(self, shape: GpuGeometry, tile: Tile) -> bool:
        return max(tile.tile_m, tile.tile_n) <= 4 * tile.threads

    def _tiling(self, shape: GpuGeometry, tile: Tile, parts: int) -> tuple[ScalarArg, ...]:
        return (i32(parts),)

    def _count(self, shape: GpuGeometry, tile: Tile) -> int:
        columns = shape.channels * shape.taps
        return tile.count(shape.filters, columns) * shape.groups

    def _steps(self, shape: GpuGeometry) -> float:
        return shape.positions

    def _most_parts(self, shape: GpuGeometry, tile: Tile, target: Target) -> int:
        return max(1, shape.positions // _SHORTEST)

    def _efficiency(self, shape: GpuGeometry, tile: Tile) -> float:
        return _EFFICIENCY[_gather(shape, tile)]


def _gather(shape: GpuGeometry, tile: Tile) -> int:
    if shape.channels_last and shape.channels % 4 == 0 and shape.filters % 4 == 0:
        return _CHANNELS
    run = tile.tile_n * tile.tile_k // tile.threads
    return _RUN if shape.channels % run == 0 else _TABLE
