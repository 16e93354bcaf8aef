"""`PhasesSolver`: what solvers for first layers in pieces have in common."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import fill
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.types import Algorithm
from convfind_solvers_direct.cpu.first import judge_first
from convfind_solvers_direct.cpu.phases import BLOCK, POINTS, PRODUCT_SHARE, Phases
from convfind_solvers_direct.cpu.solver import VECTOR, CpuSolver
from convfind_solvers_direct.window import window

#: The cost of results beside their products, in products.
_REST = 90.0


class PhasesSolver(CpuSolver):
    """Channels last in one direction: which problems, and how exact."""

    algorithm = Algorithm.WINOGRAD
    channels_last = True
    domain = CpuSolver.domain.without(Trait.GROUPS, Trait.STRICT)
    #: How the convolution is cut.
    cut: type[Phases] = Phases

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few channels where enough products are saved."""
        if not (answer := judge_first(problem)):
            return answer
        phases = self.cut(window(problem))
        if not (answer := self.judge_pieces(phases)):
            return answer
        if self.gain(phases) < PRODUCT_SHARE:
            return Rejected(Reason.FILTER_SIZE, "transforms cost more than the products they save")
        if problem.has_idle_taps:
            return Rejected(Reason.PADDING, "taps that meet nothing but zeros")
        return APPLICABLE

    def judge_pieces(self, phases: Phases) -> Applicability:
        """Take strides whose phases have filters for which there are transforms."""
        if max(phases.window.stride) == 1 or phases.line > VECTOR:
            return Rejected(
                Reason.STRIDE, f"above 1, and times the channels at most {VECTOR} along a row"
            )
        height, width = phases.taps
        if height != width or height not in POINTS:
            return Rejected(
                Reason.FILTER_SIZE, f"3 or 4 taps of a phase along both axes, not {height}, {width}"
            )
        return APPLICABLE

    def gain(self, phases: Phases) -> float:
        """The peak's share, counted by the direct formula, where register tiles are filled."""
        return phases.gain(_REST)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The share of the peak, counted by the direct formula."""
        phases = self.cut(window(problem))
        products = problem.flops / (self.gain(phases) * fill(phases.window.filters, BLOCK))
        return self.first_layer_index(problem, target, products)

    def error_bound(self, problem: ConvProblem) -> float:
        """Above what the points make of a sum: 2.8 and 3.9 times the error of plain summation.

        Where one product exceeds all others six times as much of its rounding may pass.
        """
        return 6.0
