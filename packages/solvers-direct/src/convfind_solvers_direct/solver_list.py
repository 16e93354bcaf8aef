"""The solvers of the family, best first, last resorts at the end."""

from __future__ import annotations

from convfind.solver import Solver
from convfind.types import Direction
from convfind_solvers_direct.cpu_conv import CPU_CONV_SOLVERS
from convfind_solvers_direct.cpu_first import CpuFirst
from convfind_solvers_direct.cpu_first_blocks_weights import CpuFirstBlocksWeights
from convfind_solvers_direct.cpu_first_phases import CpuFirstPhases
from convfind_solvers_direct.cpu_first_phases_weights import CpuFirstPhasesWeights
from convfind_solvers_direct.cpu_first_weights import CpuFirstWeights
from convfind_solvers_direct.cpu_narrow import CpuNarrow
from convfind_solvers_direct.cpu_weights import CPU_WEIGHTS_SOLVERS
from convfind_solvers_direct.gpu_bands import BandsConv
from convfind_solvers_direct.gpu_first import GpuFirst
from convfind_solvers_direct.gpu_first_weights import GpuFirstWeights
from convfind_solvers_direct.gpu_last import GpuLast
from convfind_solvers_direct.gpu_lines import LinesConv
from convfind_solvers_direct.gpu_pixels import PixelsConv
from convfind_solvers_direct.gpu_planes import PlanesConv
from convfind_solvers_direct.gpu_upsampled import UpsampledConv
from convfind_solvers_direct.gpu_weights import WEIGHTS_SOLVERS
from convfind_solvers_direct.gpu_wide import WideConv
from convfind_solvers_direct.gpu_wide_weights import WideWeights
from convfind_solvers_direct.naive import NaiveBackwardData, NaiveBackwardWeights, NaiveForward
from convfind_solvers_direct.nvidia_groups import GroupsConv
from convfind_solvers_direct.nvidia_stages import StagesConv


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return [
        CpuFirstPhases(),
        CpuFirstPhasesWeights(),
        CpuFirstBlocksWeights(),
        *(CpuFirst(channels_last=channels_last) for channels_last in (False, True)),
        *(
            CpuNarrow(direction, channels_last=channels_last)
            for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
            for channels_last in (False, True)
        ),
        *(CpuFirstWeights(channels_last=channels_last) for channels_last in (False, True)),
        *(GpuFirst(channels_last=channels_last) for channels_last in (False, True)),
        *(GpuLast(direction) for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)),
        *(GpuFirstWeights(channels_last=channels_last) for channels_last in (False, True)),
        *(solver() for solver in (*CPU_CONV_SOLVERS, *CPU_WEIGHTS_SOLVERS)),
        UpsampledConv(),
        *(
            solver(direction)
            for solver in (
                GroupsConv,
                StagesConv,
                BandsConv,
                WideConv,
                LinesConv,
                PlanesConv,
                PixelsConv,
            )
            for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        ),
        WideWeights(),
        *(solver() for solver in WEIGHTS_SOLVERS),
        NaiveForward(),
        NaiveBackwardData(),
        NaiveBackwardWeights(),
    ]
