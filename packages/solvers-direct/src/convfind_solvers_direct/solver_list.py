"""The solvers of the family, best first, last resorts at the end."""

from __future__ import annotations

from convfind.kit.variant import LAYOUTS, TO_TENSORS, variants
from convfind.solver import Solver
from convfind.types import Direction
from convfind_solvers_direct.cpu.conv import CpuPixels, CpuPlanes
from convfind_solvers_direct.cpu.first import CpuFirst, CpuFirstFromPlanes
from convfind_solvers_direct.cpu.first_phases import CpuFirstPhases
from convfind_solvers_direct.cpu.first_phases_weights import (
    CpuFirstBlocksWeights,
    CpuFirstPhasesWeights,
)
from convfind_solvers_direct.cpu.first_weights import CpuFirstWeights
from convfind_solvers_direct.cpu.groups import CpuGroups
from convfind_solvers_direct.cpu.narrow import CpuNarrow
from convfind_solvers_direct.cpu.weights import CpuGroupsWeights, CpuPixelsWeights, CpuPlanesWeights
from convfind_solvers_direct.gpu.bands import BandsConv
from convfind_solvers_direct.gpu.conv import OneLaunch
from convfind_solvers_direct.gpu.dots import GpuDots
from convfind_solvers_direct.gpu.first import GpuFirst
from convfind_solvers_direct.gpu.first_weights import GpuFirstWeights
from convfind_solvers_direct.gpu.last import GpuLast
from convfind_solvers_direct.gpu.lines import LinesConv
from convfind_solvers_direct.gpu.pixels import PixelsConv
from convfind_solvers_direct.gpu.pixels_weights import PixelsWeights
from convfind_solvers_direct.gpu.planes import PlanesConv
from convfind_solvers_direct.gpu.planes_weights import PlanesWeights
from convfind_solvers_direct.gpu.tiles import TilesConv
from convfind_solvers_direct.gpu.upsampled import UpsampledConv
from convfind_solvers_direct.gpu.wide import WideConv
from convfind_solvers_direct.gpu.wide_weights import WideWeights
from convfind_solvers_direct.naive import NaiveSolver
from convfind_solvers_direct.nvidia.groups import GroupsConv
from convfind_solvers_direct.nvidia.stages import StagesConv

_ONE_LAUNCH: tuple[type[OneLaunch], ...] = (
    *(GroupsConv, StagesConv, TilesConv, BandsConv, WideConv, LinesConv, PlanesConv, PixelsConv),
)


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return [
        CpuFirstPhases(),
        CpuFirstPhasesWeights(),
        CpuFirstBlocksWeights(),
        *(CpuFirst(channels_last=channels_last) for channels_last in LAYOUTS),
        CpuFirstFromPlanes(),
        *variants(CpuNarrow),
        *(CpuFirstWeights(channels_last=channels_last) for channels_last in LAYOUTS),
        GpuDots(),
        *(GpuFirst(channels_last=channels_last) for channels_last in LAYOUTS),
        *(GpuLast(direction) for direction in TO_TENSORS),
        *(GpuFirstWeights(channels_last=channels_last) for channels_last in LAYOUTS),
        *(solver(direction) for direction in TO_TENSORS for solver in (CpuPlanes, CpuPixels)),
        CpuGroups(),
        *(CpuGroupsWeights(), CpuPlanesWeights(), CpuPixelsWeights()),
        UpsampledConv(),
        *(solver(direction) for solver in _ONE_LAUNCH for direction in TO_TENSORS),
        WideWeights(),
        PlanesWeights(),
        PixelsWeights(),
        *map(NaiveSolver, Direction),
    ]
