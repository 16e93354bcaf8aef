"""The solvers of the family, best first."""

from __future__ import annotations

from functools import partial

from convfind.kit.variant import LAYOUTS, TO_TENSORS, variants
from convfind.solver import Solver
from convfind.types import Direction
from convfind_solvers_igemm.cpu.conv import ChannelsFirst, ChannelsLast, ChannelsLastInline
from convfind_solvers_igemm.cpu.few import ChannelsLastFewForward
from convfind_solvers_igemm.cpu.flat import ChannelsLastFlatForward
from convfind_solvers_igemm.cpu.rows import CpuRows
from convfind_solvers_igemm.cpu.strassen import Strassen
from convfind_solvers_igemm.cpu.weights import CpuBackwardWeights
from convfind_solvers_igemm.cpu.weights_pointwise import ChannelsLastPointwiseBackwardWeights
from convfind_solvers_igemm.cpu.weights_rows import ChannelsFirstRowsBackwardWeights
from convfind_solvers_igemm.cpu.widened import CpuWidened
from convfind_solvers_igemm.gpu.conv import ConvSolver
from convfind_solvers_igemm.gpu.dot import DotSolver
from convfind_solvers_igemm.gpu.weights import WeightsSolver
from convfind_solvers_igemm.nvidia.conv import MatrixConvSolver
from convfind_solvers_igemm.nvidia.tma import TmaConvSolver
from convfind_solvers_igemm.nvidia.weights import MatrixWeightsSolver

#: Sizes compiled in first: that is quicker where there is time to compile and to measure.
_FORMS = (True, False)
_PLAIN: tuple[type[ChannelsFirst | ChannelsLast], ...] = (ChannelsFirst, ChannelsLast)


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return cpu_solvers() + gpu_solvers()


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    return [
        Strassen(Direction.FORWARD),
        CpuRows(Direction.FORWARD, channels_last=False),
        ChannelsFirst(Direction.FORWARD),
        CpuRows(Direction.FORWARD, channels_last=True),
        ChannelsLastFewForward(),
        ChannelsLastFlatForward(),
        ChannelsLast(Direction.FORWARD),
        ChannelsLastInline(Direction.FORWARD),
        Strassen(Direction.BACKWARD_DATA),
        CpuRows(Direction.BACKWARD_DATA, channels_last=False),
        ChannelsFirst(Direction.BACKWARD_DATA),
        CpuRows(Direction.BACKWARD_DATA, channels_last=True),
        ChannelsLast(Direction.BACKWARD_DATA),
        ChannelsLastInline(Direction.BACKWARD_DATA),
        ChannelsFirstRowsBackwardWeights(),
        *(CpuBackwardWeights(channels_last=last) for last in LAYOUTS),
        ChannelsLastPointwiseBackwardWeights(),
        *(CpuWidened(kind(direction)) for direction in TO_TENSORS for kind in _PLAIN),
        *(CpuWidened(CpuBackwardWeights(channels_last=last)) for last in LAYOUTS),
    ]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    return [
        *map(TmaConvSolver, TO_TENSORS),
        *(one for fixed in _FORMS for one in variants(partial(MatrixConvSolver, fixed=fixed))),
        *(MatrixWeightsSolver(fixed=fixed) for fixed in _FORMS),
        *(DotSolver(channels_last=last, fixed=fixed) for fixed in _FORMS for last in LAYOUTS),
        *(one for fixed in _FORMS for one in variants(partial(ConvSolver, fixed=fixed))),
        *(WeightsSolver(channels_last=last, fixed=fixed) for fixed in _FORMS for last in LAYOUTS),
    ]
