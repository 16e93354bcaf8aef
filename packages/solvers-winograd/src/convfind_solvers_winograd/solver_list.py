"""The solvers of the family, best first."""

from __future__ import annotations

from itertools import product

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
_LAYOUTS = (False, True)  # channels last
_WITH_WEIGHTS = (Direction.FORWARD, Direction.BACKWARD_DATA)
#: Transforms on CPUs, the axes of their filters, directions, and whether weights are transformed
#: ahead; with stride 2 directions have transforms of their own.
_CPU_VARIANTS = (
    (F4X3, 2, _WITH_WEIGHTS, (True, False)),
    (F6X3, 2, _WITH_WEIGHTS, (True,)),
    (F2X3, 2, _WITH_WEIGHTS, (False,)),  # wins on images of few tiles
    (F4X5, 2, _WITH_WEIGHTS, (True, False)),
    (F4X7, 1, _WITH_WEIGHTS, (True,)),
    (F4X5, 1, _WITH_WEIGHTS, (True,)),
    (F6X3, 1, _WITH_WEIGHTS, (True,)),
    (F4X3, 1, _WITH_WEIGHTS, (True,)),
    (F4X3_S2, 2, (Direction.FORWARD,), (True, False)),
    (F2X3_S2, 2, (Direction.FORWARD,), (True,)),
    (F8X3_UP2, 2, (Direction.BACKWARD_DATA,), (True, False)),
    (F4X3_UP2, 2, (Direction.BACKWARD_DATA,), (True,)),
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
#: Solver of a weight gradient, transform, and whether channels come last: channels first larger
#: tiles take long to transform.
_GPU_WEIGHTS_VARIANTS = (
    (WeightsSolver, F3X4, False),
    (ShortWeightsSolver, F3X4, True),
    (ShortWeightsSolver, F3X5, True),
    (ShortWeightsSolver, F3X6, True),
    (WeightsSolver, F5X4, False),
    (WeightsSolver, F5X4, True),
)


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    return [
        *(
            CpuConvSolver(
                *(transform, direction),
                channels_last=last,
                packs_ahead=ahead,
                axes=axes,
                dtypes=_FLOATS if transform is F2X3 else (DataType.FLOAT32,),
            )
            for transform, axes, directions, ways in _CPU_VARIANTS
            for direction, last, ahead in product(directions, _LAYOUTS, ways)
        ),
        *(CpuGroupsSolver(F4X3, direction) for direction in _WITH_WEIGHTS),
        *(
            CpuVolumeSolver(F4X3, direction, channels_last=last)
            for direction, last in product(_WITH_WEIGHTS, _LAYOUTS)
        ),
        *(
            CpuWeightsSolver(transform, channels_last=last, axes=axes)
            for transform, axes, layouts in _CPU_WEIGHTS_VARIANTS
            for last in layouts
        ),
    ]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    return [
        *(
            ConvSolver(transform, direction, channels_last=last, axes=axes)
            for transform, axes in ((F4X3, 2), (F6X3, 2), (F4X5, 2), (F4X7, 1))
            for direction, last in product(_WITH_WEIGHTS, _LAYOUTS)
        ),
        *(kind(transform, channels_last=last) for kind, transform, last in _GPU_WEIGHTS_VARIANTS),
        *(
            solver(F4X3, direction)
            for solver in (FusedMmaSolver, NarrowSolver, PipelinedSolver)
            for direction in _WITH_WEIGHTS
        ),
        *(
            FusedSolver(transform, direction, channels_last=last, dtypes=dtypes)
            for transform, dtypes in ((F4X3, (DataType.FLOAT32,)), (F2X3, _FLOATS))
            for direction, last in product(_WITH_WEIGHTS, _LAYOUTS)
        ),
    ]
