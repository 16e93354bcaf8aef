"""The solvers of the family, best first."""

from __future__ import annotations

from convfind.solver import Solver
from convfind.types import DataType, Direction
from convfind_solvers_winograd.algorithms import F2X3, F3X4, F4X3, F4X5, F4X7, F5X4, F6X3, F7X4
from convfind_solvers_winograd.cpu_conv import CpuConvSolver
from convfind_solvers_winograd.cpu_weights import CpuWeightsSolver
from convfind_solvers_winograd.gpu_conv import ConvSolver
from convfind_solvers_winograd.gpu_fused import FusedSolver
from convfind_solvers_winograd.gpu_weights import WeightsSolver


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return cpu_solvers() + gpu_solvers()


#: Transforms on CPUs, the axes of their filters, and whether weights are transformed ahead.
_CPU_VARIANTS = (
    (F4X3, 2, (True, False)),
    (F6X3, 2, (True,)),
    (F2X3, 2, (False,)),  # wins on images of few tiles
    (F4X5, 2, (True, False)),
    (F4X7, 1, (True,)),
    (F4X5, 1, (True,)),
    (F6X3, 1, (True,)),
    (F4X3, 1, (True,)),
)
_CPU_WEIGHTS_VARIANTS = ((F3X4, 2), (F5X4, 2), (F7X4, 1), (F5X4, 1), (F3X4, 1))


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    convolutions: list[Solver] = [
        CpuConvSolver(transform, direction, channels_last=last, packs_ahead=ahead, axes=axes)
        for transform, axes, ways in _CPU_VARIANTS
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
        for ahead in ways
    ]
    return convolutions + [
        CpuWeightsSolver(transform, channels_last=last, axes=axes)
        for transform, axes in _CPU_WEIGHTS_VARIANTS
        for last in (False, True)
    ]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    convolutions: list[Solver] = [
        ConvSolver(transform, direction, channels_last=last)
        for transform in (F4X3, F6X3)
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
    ]
    fused: list[Solver] = [
        FusedSolver(transform, direction, channels_last=last, dtypes=dtypes)
        for transform, dtypes in (
            (F4X3, (DataType.FLOAT32,)),
            (F2X3, (DataType.FLOAT32, DataType.FLOAT16)),
        )
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
    ]
    weights = [WeightsSolver(F3X4, channels_last=last) for last in (False, True)]
    return [*convolutions, *weights, *fused]
