"""The solvers of the family, best first."""

from __future__ import annotations

from convfind.solver import Solver
from convfind.types import DataType, Direction
from convfind_solvers_winograd.algorithms import (
    F2X3,
    F2X3_S2,
    F3X2_D2,
    F3X4,
    F3X5,
    F3X6,
    F4X3,
    F4X3_S2,
    F4X3_UP2,
    F4X5,
    F4X7,
    F5X4,
    F6X3,
    F7X4,
    F8X3_UP2,
)
from convfind_solvers_winograd.cpu_conv import CpuConvSolver
from convfind_solvers_winograd.cpu_groups import CpuGroupsSolver
from convfind_solvers_winograd.cpu_volumes import CpuVolumeSolver
from convfind_solvers_winograd.cpu_weights import CpuWeightsSolver
from convfind_solvers_winograd.gpu_conv import ConvSolver
from convfind_solvers_winograd.gpu_fused import FusedSolver
from convfind_solvers_winograd.gpu_fused_mma import FusedMmaSolver
from convfind_solvers_winograd.gpu_narrow import NarrowSolver
from convfind_solvers_winograd.gpu_pipelined import PipelinedSolver
from convfind_solvers_winograd.gpu_weights import ShortWeightsSolver, WeightsSolver


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return cpu_solvers() + gpu_solvers()


#: The domain of F(2, 3): the smallest of transforms leaves float16's precision.
_FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
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
#: The same of stride 2, where directions have transforms of their own.
_CPU_STRIDED_VARIANTS = (
    (F4X3_S2, Direction.FORWARD, (True, False)),
    (F2X3_S2, Direction.FORWARD, (True,)),
    (F8X3_UP2, Direction.BACKWARD_DATA, (True, False)),
    (F4X3_UP2, Direction.BACKWARD_DATA, (True,)),
)
#: For the gradients of the weights: transform, axes, layouts (those with stride 2 lose in NCHW).
_CPU_WEIGHTS_VARIANTS = (
    (F3X4, 2, (False, True)),
    (F5X4, 2, (False, True)),
    (F7X4, 1, (False, True)),
    (F5X4, 1, (False, True)),
    (F3X4, 1, (False, True)),
    (F3X2_D2, 2, (True,)),
)
#: Transform of a weight gradient; layouts. Channels first larger tiles take long to transform.
_GPU_WEIGHTS_VARIANTS = (
    (F3X4, (False, True)),
    (F3X5, (True,)),
    (F3X6, (True,)),
    (F5X4, (False, True)),
)


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    convolutions: list[Solver] = [
        CpuConvSolver(
            *(transform, direction),
            channels_last=last,
            packs_ahead=ahead,
            axes=axes,
            dtypes=_FLOATS if transform is F2X3 else (DataType.FLOAT32,),
        )
        for transform, axes, ways in _CPU_VARIANTS
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
        for ahead in ways
    ]
    convolutions += [
        CpuConvSolver(transform, direction, channels_last=last, packs_ahead=ahead)
        for transform, direction, ways in _CPU_STRIDED_VARIANTS
        for last in (False, True)
        for ahead in ways
    ]
    convolutions += [
        CpuGroupsSolver(F4X3, direction)
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
    ]
    convolutions += [
        CpuVolumeSolver(F4X3, direction, channels_last=last)
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
    ]
    return convolutions + [
        CpuWeightsSolver(transform, channels_last=last, axes=axes)
        for transform, axes, layouts in _CPU_WEIGHTS_VARIANTS
        for last in layouts
    ]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    convolutions: list[Solver] = [
        ConvSolver(transform, direction, channels_last=last, axes=axes)
        for transform, axes in ((F4X3, 2), (F6X3, 2), (F4X5, 2), (F4X7, 1))
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
    ]
    fused: list[Solver] = [
        FusedSolver(transform, direction, channels_last=last, dtypes=dtypes)
        for transform, dtypes in ((F4X3, (DataType.FLOAT32,)), (F2X3, _FLOATS))
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
    ]
    weights = [
        (ShortWeightsSolver if last and transform.m == F3X4.m else WeightsSolver)(
            transform, channels_last=last
        )
        for transform, layouts in _GPU_WEIGHTS_VARIANTS
        for last in layouts
    ]
    special = [
        solver(F4X3, direction)
        for solver in (FusedMmaSolver, NarrowSolver, PipelinedSolver)
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
    ]
    return [*convolutions, *weights, *special, *fused]
