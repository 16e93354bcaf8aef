"""The solvers of the family, best first."""

from __future__ import annotations

from convfind.solver import Solver
from convfind.types import Direction
from convfind_solvers_igemm.cpu.conv import (
    ChannelsFirstBackwardData,
    ChannelsFirstForward,
    ChannelsLastBackwardData,
    ChannelsLastBackwardDataInline,
    ChannelsLastForward,
    ChannelsLastForwardInline,
)
from convfind_solvers_igemm.cpu.flat import ChannelsLastFlatForward
from convfind_solvers_igemm.cpu.rows import (
    ChannelsFirstRowsBackwardData,
    ChannelsFirstRowsForward,
    ChannelsLastRowsBackwardData,
    ChannelsLastRowsForward,
)
from convfind_solvers_igemm.cpu.strassen import StrassenBackwardData, StrassenForward
from convfind_solvers_igemm.cpu.weights import (
    ChannelsFirstBackwardWeights,
    ChannelsLastBackwardWeights,
)
from convfind_solvers_igemm.cpu.weights_pointwise import ChannelsLastPointwiseBackwardWeights
from convfind_solvers_igemm.cpu.weights_rows import ChannelsFirstRowsBackwardWeights
from convfind_solvers_igemm.cpu.widened import CpuWidened
from convfind_solvers_igemm.gpu.conv import ConvSolver
from convfind_solvers_igemm.gpu.dot import DotSolver
from convfind_solvers_igemm.gpu.weights import WeightsSolver
from convfind_solvers_igemm.nvidia.conv import MatrixConvSolver
from convfind_solvers_igemm.nvidia.weights import MatrixWeightsSolver

#: Sizes compiled in first: that is quicker where there is time to compile and to measure.
_FORMS = (True, False)
_LAYOUTS = (False, True)  # channels last


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return cpu_solvers() + gpu_solvers()


def cpu_solvers() -> list[Solver]:
    """Return those for CPUs."""
    return [
        StrassenForward(),
        ChannelsFirstRowsForward(),
        ChannelsFirstForward(),
        ChannelsLastRowsForward(),
        ChannelsLastFlatForward(),
        ChannelsLastForward(),
        ChannelsLastForwardInline(),
        StrassenBackwardData(),
        ChannelsFirstRowsBackwardData(),
        ChannelsFirstBackwardData(),
        ChannelsLastRowsBackwardData(),
        ChannelsLastBackwardData(),
        ChannelsLastBackwardDataInline(),
        ChannelsFirstRowsBackwardWeights(),
        ChannelsFirstBackwardWeights(),
        ChannelsLastBackwardWeights(),
        ChannelsLastPointwiseBackwardWeights(),
        CpuWidened(ChannelsFirstForward()),
        CpuWidened(ChannelsLastForward()),
        CpuWidened(ChannelsFirstBackwardData()),
        CpuWidened(ChannelsLastBackwardData()),
        CpuWidened(ChannelsFirstBackwardWeights()),
        CpuWidened(ChannelsLastBackwardWeights()),
    ]


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    return [
        *_convolutions(MatrixConvSolver),
        *(MatrixWeightsSolver(fixed=fixed) for fixed in _FORMS),
        *(DotSolver(channels_last=last, fixed=fixed) for fixed in _FORMS for last in _LAYOUTS),
        *_convolutions(ConvSolver),
        *(WeightsSolver(channels_last=last, fixed=fixed) for fixed in _FORMS for last in _LAYOUTS),
    ]


def _convolutions(kind: type[MatrixConvSolver | ConvSolver]) -> list[Solver]:
    return [
        kind(direction, channels_last=last, fixed=fixed)
        for fixed in _FORMS
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in _LAYOUTS
    ]
