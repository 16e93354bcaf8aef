"""The weight gradient of first layers of stride 1 on CPUs, by Winograd in blocks of the filter."""

from __future__ import annotations

from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind_solvers_direct.cpu_first_phases_weights import CpuFirstPhasesWeights
from convfind_solvers_direct.phases import Blocks, Phases


class CpuFirstBlocksWeights(CpuFirstPhasesWeights):
    """w from x and y: blocks of the filter instead of phases of the image."""

    solver_id = "direct-cpu-first-blocks-nhwc-bwd-weights"
    version = 1
    cut = Blocks

    def judge_pieces(self, phases: Phases) -> Applicability:
        """Take stride 1: filters of any size are cut into blocks for which there are transforms."""
        if max(phases.window.stride) > 1:
            return Rejected(Reason.STRIDE, "is for 1")
        return APPLICABLE
