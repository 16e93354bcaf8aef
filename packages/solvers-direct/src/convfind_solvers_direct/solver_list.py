"""The solvers of the family, best first, last resorts at the end."""

from __future__ import annotations

from convfind.solver import Solver
from convfind_solvers_direct.cpu_conv import CPU_CONV_SOLVERS
from convfind_solvers_direct.cpu_first import CpuFirst
from convfind_solvers_direct.cpu_weights import CPU_WEIGHTS_SOLVERS
from convfind_solvers_direct.gpu_conv import CONV_SOLVERS
from convfind_solvers_direct.gpu_first import GpuFirst
from convfind_solvers_direct.gpu_weights import WEIGHTS_SOLVERS
from convfind_solvers_direct.gpu_wide import WideBackwardData, WideForward
from convfind_solvers_direct.naive import NaiveBackwardData, NaiveBackwardWeights, NaiveForward


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return [
        *(CpuFirst(channels_last=channels_last) for channels_last in (False, True)),
        *(GpuFirst(channels_last=channels_last) for channels_last in (False, True)),
        *(solver() for solver in (*CPU_CONV_SOLVERS, *CPU_WEIGHTS_SOLVERS)),
        WideForward(),
        WideBackwardData(),
        *(solver() for solver in (*CONV_SOLVERS, *WEIGHTS_SOLVERS)),
        NaiveForward(),
        NaiveBackwardData(),
        NaiveBackwardWeights(),
    ]
