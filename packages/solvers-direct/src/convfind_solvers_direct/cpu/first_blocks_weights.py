"""The weight gradient of first layers of stride 1 on CPUs, by Winograd in blocks of the filter."""

from __future__ import annotations

from convfind.problem.traits import Trait
from convfind.solver.applicability import APPLICABLE, Applicability
from convfind_solvers_direct.cpu.first_phases_weights import CpuFirstPhasesWeights
from convfind_solvers_direct.cpu.phases import Blocks, Phases


class CpuFirstBlocksWeights(CpuFirstPhasesWeights):
    """w from x and y: blocks of the filter instead of phases of the image."""

    prefix = "direct-cpu-first-blocks"
    version = 1
    domain = CpuFirstPhasesWeights.domain.without(Trait.STRIDE)
    cut = Blocks

    def judge_pieces(self, phases: Phases) -> Applicability:
        """Take filters of any size, cut into blocks for which there are transforms."""
        return APPLICABLE
