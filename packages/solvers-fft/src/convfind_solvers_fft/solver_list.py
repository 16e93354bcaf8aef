"""The solvers of the family, best first."""

from __future__ import annotations

from convfind.kit.variant import variants
from convfind.solver import Solver
from convfind.types import Direction
from convfind_solvers_fft.cpu_dense import CpuDenseSolver
from convfind_solvers_fft.cpu_depthwise import CpuDepthwiseSolver
from convfind_solvers_fft.cpu_depthwise_weights import CpuDepthwiseWeightsSolver
from convfind_solvers_fft.cpu_weights import CpuWeightsSolver
from convfind_solvers_fft.gpu_dense import GpuDenseSolver
from convfind_solvers_fft.gpu_depthwise import GpuDepthwiseSolver
from convfind_solvers_fft.gpu_depthwise_weights import GpuDepthwiseWeightsSolver


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return cpu_solvers() + gpu_solvers()


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    return [
        *variants(CpuDepthwiseSolver),
        *variants(CpuDepthwiseWeightsSolver, (Direction.BACKWARD_WEIGHTS,)),
        *variants(CpuDenseSolver),
        *variants(CpuWeightsSolver, (Direction.BACKWARD_WEIGHTS,)),
    ]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    return [
        *variants(GpuDepthwiseSolver),
        *variants(GpuDepthwiseWeightsSolver, (Direction.BACKWARD_WEIGHTS,)),
        *variants(GpuDenseSolver, Direction),
    ]
