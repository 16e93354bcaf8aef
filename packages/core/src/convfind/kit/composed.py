"""Composition: a solver that knows no epilogues, and a step of core's that applies them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from convfind.device.target import Target
from convfind.kit.epilogue_step import epilogue_step
from convfind.problem import ConvProblem
from convfind.problem.traits import EPILOGUE_TRAITS
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.contract import Solver, TunableSolver
from convfind.solver.recipe import BufferArg, Memory, Recipe, align, relocated
from convfind.solver.search_space import SearchSpace
from convfind.types import Direction

#: Behind the id of a solver: the solver with a step for the epilogue.
SUFFIX: Final = "+epilogue"
#: Operations in the time of a byte moved, on devices of any size about as many.
_OPERATIONS_OF_A_BYTE = 12


class Composed(Solver):
    """A solver's recipe for the problem without its epilogue, and one step that applies it.

    Where a tensor is added, sums go to the workspace first, because that tensor may be the result.
    """

    def __init__(self, inner: Solver) -> None:
        self.inner = inner
        self.solver_id = inner.solver_id + SUFFIX
        self.algorithm = inner.algorithm  # type: ignore[misc]  # of each, as all below
        self.version = inner.version  # type: ignore[misc]
        self.is_dynamic = inner.is_dynamic
        self.is_last_resort = inner.is_last_resort  # type: ignore[misc]
        self.backends = inner.backends
        self.result_roundings = inner.result_roundings + 1
        directions = set(inner.domain.directions) - {Direction.BACKWARD_WEIGHTS}
        self.domain = replace(
            inner.domain,
            directions=tuple(sorted(directions)),
            traits=inner.domain.traits | EPILOGUE_TRAITS,
        )

    @staticmethod
    def completes(solver: Solver) -> bool:
        """Return whether there are problems that a solver takes only with such a step."""
        directions = set(solver.domain.directions) - {Direction.BACKWARD_WEIGHTS}
        return bool(directions) and not solver.domain.traits >= EPILOGUE_TRAITS

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Ask the solver about the problem without its epilogue."""
        if problem.traits & EPILOGUE_TRAITS <= self.inner.domain.traits:
            return Rejected(Reason.EPILOGUE, f"{self.inner.solver_id} needs no further step")
        return self.inner.takes(problem.without_epilogue(), target)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Return the bytes of the solver, and of its sums where a tensor is added."""
        own = _bytes_of_sums(problem)
        left = None if limit is None else max(0, limit - own)
        return own + self.inner.workspace_size(problem.without_epilogue(), target, left)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Return the solver's index, less what the step costs."""
        index = self.inner.wti(problem.without_epilogue(), target)
        if not index:
            return index
        passes = 3 if problem.adds_z else 2
        moved = passes * problem.nbytes(problem.direction.writes)
        return problem.flops / (problem.flops / index + _OPERATIONS_OF_A_BYTE * moved)

    def error_bound(self, problem: ConvProblem) -> float:
        """Return the solver's factor."""
        return self.inner.error_bound(problem.without_epilogue())

    def error_reach(self, problem: ConvProblem) -> int:
        """Return how far the solver's errors spread."""
        return self.inner.error_reach(problem.without_epilogue())

    def mixes_values(self, problem: ConvProblem) -> bool:
        """Return whether the solver mixes values."""
        return self.inner.mixes_values(problem.without_epilogue())

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


class ComposedTunable(Composed, TunableSolver):
    """The same of a solver with tuning parameters, which are its own."""

    inner: TunableSolver

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Return the solver's parameters."""
        return self.inner.search_space(problem.without_epilogue(), target)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Return the solver's default."""
        return self.inner.default_config(problem.without_epilogue(), target)


def composed(solver: Solver) -> Composed:
    """Return a solver with a step for the epilogue."""
    return (ComposedTunable if isinstance(solver, TunableSolver) else Composed)(solver)


def without_epilogue(problem: Any) -> Any:
    """Return a problem without its epilogue: itself, if it has none or is no convolution."""
    return problem.without_epilogue() if isinstance(problem, ConvProblem) else problem


def _bytes_of_sums(problem: ConvProblem) -> int:
    return align(problem.nbytes(problem.direction.writes)) if problem.adds_z else 0
