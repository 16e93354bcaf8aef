"""The solvers of the family, best first."""

from __future__ import annotations

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

_TO_TENSORS = (Direction.FORWARD, Direction.BACKWARD_DATA)


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return cpu_solvers() + gpu_solvers()


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    kinds: tuple[tuple[type[CpuSolver], tuple[Direction, ...]], ...] = (
        (CpuDepthwiseSolver, _TO_TENSORS),
        (CpuDepthwiseWeightsSolver, (Direction.BACKWARD_WEIGHTS,)),
        (CpuDenseSolver, _TO_TENSORS),
        (CpuWeightsSolver, (Direction.BACKWARD_WEIGHTS,)),
    )
    return [
        kind(direction, channels_last=last)
        for kind, directions in kinds
        for direction in directions
        for last in (False, True)
    ]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    kinds: tuple[type[GpuSolver], ...] = (GpuDepthwiseSolver, GpuDenseSolver)
    return [kind(direction) for kind in kinds for direction in _TO_TENSORS]
