"""The solvers of the family, best first."""

from __future__ import annotations

from convfind.solver import Solver
from convfind.types import Direction
from convfind_solvers_winograd.algorithms import F3X4, F4X3, F6X3
from convfind_solvers_winograd.cpu_conv import CpuConvSolver
from convfind_solvers_winograd.cpu_weights import CpuWeightsSolver
from convfind_solvers_winograd.gpu_conv import ConvSolver
from convfind_solvers_winograd.gpu_weights import WeightsSolver


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return cpu_solvers() + gpu_solvers()


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    convolutions: list[Solver] = [
        CpuConvSolver(transform, direction, channels_last=last, packs_ahead=ahead)
        for transform, ways in ((F4X3, (True, False)), (F6X3, (True,)))
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
        for ahead in ways
    ]
    return convolutions + [CpuWeightsSolver(F3X4, channels_last=last) for last in (False, True)]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    convolutions: list[Solver] = [
        ConvSolver(transform, direction, channels_last=last)
        for transform in (F4X3, F6X3)
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
    ]
    return convolutions + [WeightsSolver(F3X4, channels_last=last) for last in (False, True)]
