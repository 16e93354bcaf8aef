"""`PhasesSolver`: what solvers over the phases of first layers have in common."""

from __future__ import annotations

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.target import Target
from convfind.types import AccuracyClass, Algorithm
from convfind_solvers_direct.cpu_first import judge_first
from convfind_solvers_direct.cpu_solver import VECTOR, CpuSolver, fill
from convfind_solvers_direct.phases import BLOCK, PRODUCT_SHARE, Phases
from convfind_solvers_direct.window import window

#: Taps of a phase along an axis that the transforms are for.
_POINTS = (3, 4)


class PhasesSolver(CpuSolver):
    """Channels last in one direction: which problems, and how exact."""

    algorithm = Algorithm.WINOGRAD

    def judge(self, problem: ConvProblem) -> Applicability:
        """Take packed tensors of few channels, strided, where enough products are saved."""
        if not (answer := judge_first(problem, True)):
            return answer
        if problem.accuracy is AccuracyClass.STRICT:
            return Rejected(
                Reason.ACCURACY, "transforms, and accuracy=strict wants the direct formula"
            )
        phases = Phases(window(problem))
        if max(phases.window.stride) == 1 or phases.line > VECTOR:
            return Rejected(
                Reason.STRIDE, f"above 1, and times the channels at most {VECTOR} along a row"
            )
        height, width = phases.taps
        if height != width or height not in _POINTS:
            return Rejected(
                Reason.FILTER_SIZE, f"3 or 4 taps of a phase along both axes, not {height}, {width}"
            )
        if phases.gain < PRODUCT_SHARE:
            return Rejected(Reason.FILTER_SIZE, "transforms cost more than the products they save")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The share of the peak, counted by the direct formula."""
        phases = Phases(window(problem))
        return max(phases.gain * fill(phases.window.filters, BLOCK), 0.02)

    def error_bound(self, problem: ConvProblem) -> float:
        """Above what the points make of a sum: 2.8 and 3.9 times the error of plain summation.

        Where one product exceeds all others six times as much of its rounding may pass.
        """
        return 6.0
