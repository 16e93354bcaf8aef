"""The solvers of the family, best first."""

from __future__ import annotations

from functools import partial
from itertools import product

from convfind.kit.variant import LAYOUTS, TO_TENSORS, variants
from convfind.solver import Solver
from convfind.types import DataType, Direction
from convfind_solvers_winograd import algorithms
from convfind_solvers_winograd.cpu_conv import CpuConvSolver, CpuInlineConvSolver
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
_AHEAD, _INLINE, _BOTH = (
    (CpuConvSolver,),
    (CpuInlineConvSolver,),
    (CpuConvSolver, CpuInlineConvSolver),
)
#: Transforms on CPUs, the axes of their filters, directions, and whether weights are transformed
#: ahead; with stride 2 directions have transforms of their own.
_CPU_VARIANTS = (
    (algorithms.F4X3, 2, TO_TENSORS, _BOTH),
    (algorithms.F6X3, 2, TO_TENSORS, _AHEAD),
    (algorithms.F2X3, 2, TO_TENSORS, _INLINE),  # wins on images of few tiles
    (algorithms.F4X5, 2, TO_TENSORS, _BOTH),
    (algorithms.F4X7, 1, TO_TENSORS, _AHEAD),
    (algorithms.F4X5, 1, TO_TENSORS, _AHEAD),
    (algorithms.F6X3, 1, TO_TENSORS, _AHEAD),
    (algorithms.F4X3, 1, TO_TENSORS, _AHEAD),
    (algorithms.F4X3_S2, 2, (Direction.FORWARD,), _BOTH),
    (algorithms.F2X3_S2, 2, (Direction.FORWARD,), _AHEAD),
    (algorithms.F8X3_UP2, 2, (Direction.BACKWARD_DATA,), _BOTH),
    (algorithms.F4X3_UP2, 2, (Direction.BACKWARD_DATA,), _AHEAD),
)
#: For the gradients of the weights: transform, axes, layouts (those with stride 2 lose in NCHW).
_CPU_WEIGHTS_VARIANTS = (
    (algorithms.F3X4, 2, LAYOUTS),
    (algorithms.F5X4, 2, LAYOUTS),
    (algorithms.F7X4, 1, LAYOUTS),
    (algorithms.F5X4, 1, LAYOUTS),
    (algorithms.F3X4, 1, LAYOUTS),
    (algorithms.F3X2_D2, 2, (True,)),
)
#: Transforms on GPUs, and the axes of their filters.
_GPU_VARIANTS = (
    (algorithms.F4X3, 2),
    (algorithms.F6X3, 2),
    (algorithms.F4X5, 2),
    (algorithms.F4X7, 1),
)


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    return [
        *(
            kind(
                *(transform, direction),
                channels_last=last,
                axes=axes,
                dtypes=_FLOATS if transform is algorithms.F2X3 else (DataType.FLOAT32,),
            )
            for transform, axes, directions, kinds in _CPU_VARIANTS
            for direction, last, kind in product(directions, LAYOUTS, kinds)
        ),
        *(CpuGroupsSolver(algorithms.F4X3, direction) for direction in TO_TENSORS),
        *variants(partial(CpuVolumeSolver, algorithms.F4X3)),
        *(
            CpuWeightsSolver(transform, channels_last=last, axes=axes)
            for transform, axes, layouts in _CPU_WEIGHTS_VARIANTS
            for last in layouts
        ),
    ]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs; channels first the larger tiles of weights take long to transform."""
    return [
        *(
            solver
            for transform, axes in _GPU_VARIANTS
            for solver in variants(partial(ConvSolver, transform, axes=axes))
        ),
        WeightsSolver(algorithms.F3X4, channels_last=False),
        ShortWeightsSolver(algorithms.F3X4, channels_last=True),
        ShortWeightsSolver(algorithms.F3X5, channels_last=True),
        ShortWeightsSolver(algorithms.F3X6, channels_last=True),
        *(WeightsSolver(algorithms.F5X4, channels_last=last) for last in LAYOUTS),
        *(
            solver(algorithms.F4X3, direction)
            for solver in (FusedMmaSolver, NarrowSolver, PipelinedSolver)
            for direction in TO_TENSORS
        ),
        *variants(partial(FusedSolver, algorithms.F4X3)),
        *variants(partial(FusedSolver, algorithms.F2X3, dtypes=_FLOATS)),
    ]
