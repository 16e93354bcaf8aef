"""Composition: a solver that knows no epilogues, and a step of core's that applies them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from convfind.device.target import Target
from convfind.kit.completed import Completed, CompletedTunable
from convfind.kit.epilogue_step import epilogue_step
from convfind.problem import ConvProblem
from convfind.problem.traits import EPILOGUE_TRAITS
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.contract import Solver, TunableSolver
from convfind.solver.recipe import BufferArg, Memory, Recipe, align, relocated
from convfind.types import Direction


class Composed(Completed):
    """A solver's recipe for the problem without its epilogue, and one step that applies it.

    Where a tensor is added that may be the result, sums go to the workspace first.
    """

    suffix = "+epilogue"

    def __init__(self, inner: Solver) -> None:
        domain = inner.domain
        directions = set(domain.directions) - {Direction.BACKWARD_WEIGHTS}
        super().__init__(
            inner,
            replace(
                domain,
                directions=tuple(sorted(directions)),
                traits=domain.traits | EPILOGUE_TRAITS,
            ),
        )
        self.result_roundings = inner.result_roundings + 1

    @staticmethod
    def completes(solver: Solver) -> bool:
        """Return whether there are problems that a solver takes only with such a step."""
        directions = set(solver.domain.directions) - {Direction.BACKWARD_WEIGHTS}
        return bool(directions) and not solver.domain.traits >= EPILOGUE_TRAITS

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Ask the solver about the problem without its epilogue, unless it takes that inside."""
        is_inside = problem.traits & EPILOGUE_TRAITS <= self.inner.domain.traits
        if is_inside and self.inner.takes(problem, target):
            return Rejected(Reason.EPILOGUE, f"{self.inner.solver_id} needs no further step")
        return self.inner.takes(problem.without_epilogue(), target)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Return the bytes of the solver, and of its sums where they lie apart."""
        own = _bytes_of_sums(problem)
        left = None if limit is None else max(0, limit - own)
        return own + self.inner.workspace_size(problem.without_epilogue(), target, left)

    def inside(self, problem: ConvProblem) -> ConvProblem:
        """Return the problem without its epilogue."""
        return problem.without_epilogue()

    def moved(self, problem: ConvProblem) -> int:
        """Return the bytes of sums, of what is added, and of the result."""
        return (3 if problem.adds_z else 2) * problem.nbytes(problem.direction.writes)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """Return the solver's steps, and the one behind them."""
        own = _bytes_of_sums(problem)
        left = None if workspace_limit is None else max(0, workspace_limit - own)
        recipe = self.inner.solution(problem.without_epilogue(), target, config, left)
        if not own:
            step = epilogue_step(problem, target, None)
            return replace(recipe, solver=self.solver_id, steps=(*recipe.steps, step))
        writes = problem.direction.writes

        def place(memory: str, offset: int) -> tuple[str, int]:
            if memory == writes:
                return Memory.WORKSPACE, offset
            return memory, offset + own if memory == Memory.WORKSPACE else offset

        step = epilogue_step(problem, target, BufferArg(Memory.WORKSPACE))
        return replace(
            recipe,
            solver=self.solver_id,
            steps=(*(relocated(one, place) for one in recipe.steps), step),
            prepare=tuple(relocated(one, place) for one in recipe.prepare),
            workspace=own + recipe.workspace,
        )


class ComposedTunable(Composed, CompletedTunable):
    """The same of a solver with tuning parameters."""


def composed(solver: Solver) -> Composed:
    """Return a solver with a step for the epilogue."""
    return (ComposedTunable if isinstance(solver, TunableSolver) else Composed)(solver)


def without_epilogue(problem: Any) -> Any:
    """Return a problem without its epilogue: itself, if it has none or is no convolution."""
    return problem.without_epilogue() if isinstance(problem, ConvProblem) else problem


def _bytes_of_sums(problem: ConvProblem) -> int:
    lies_apart = problem.adds_z and not problem.add_last
    return align(problem.nbytes(problem.direction.writes)) if lies_apart else 0
