"""The solvers of the family, best first."""

from __future__ import annotations

from collections.abc import Iterator

from convfind.solver import Solver
from convfind.types import Direction
from convfind_solvers_fft.cpu import CpuSolver
from convfind_solvers_fft.cpu_dense import CpuDenseSolver
from convfind_solvers_fft.cpu_depthwise import CpuDepthwiseSolver
from convfind_solvers_fft.cpu_depthwise_weights import CpuDepthwiseWeightsSolver
from convfind_solvers_fft.cpu_weights import CpuWeightsSolver
from convfind_solvers_fft.gpu import GpuSolver
from convfind_solvers_fft.gpu_dense import GpuDenseSolver
from convfind_solvers_fft.gpu_depthwise import GpuDepthwiseSolver
from convfind_solvers_fft.gpu_depthwise_weights import GpuDepthwiseWeightsSolver

_TO_TENSORS = (Direction.FORWARD, Direction.BACKWARD_DATA)


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return cpu_solvers() + gpu_solvers()


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    return [
        *_variants(CpuDepthwiseSolver, *_TO_TENSORS),
        *_variants(CpuDepthwiseWeightsSolver, Direction.BACKWARD_WEIGHTS),
        *_variants(CpuDenseSolver, *_TO_TENSORS),
        *_variants(CpuWeightsSolver, Direction.BACKWARD_WEIGHTS),
    ]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    return [
        *_variants(GpuDepthwiseSolver, *_TO_TENSORS),
        *_variants(GpuDepthwiseWeightsSolver, Direction.BACKWARD_WEIGHTS),
        *_variants(GpuDenseSolver, *Direction),
    ]


def _variants(kind: type[CpuSolver | GpuSolver], *directions: Direction) -> Iterator[Solver]:
    for direction in directions:
        for channels_last in (False, True):
            yield kind(direction, channels_last=channels_last)
