"""`Completed`: a solver with steps of core's around its own, for problems that it does not take."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.solver.contract import Solver, TunableSolver
from convfind.solver.domain import Domain
from convfind.solver.search_space import SearchSpace

#: Operations in the time of a byte moved, on devices of any size about as many.
_OPERATIONS_OF_A_BYTE = 12


class Completed(Solver):
    """A solver that computes another problem, and steps that make the result that of this one.

    All that it says is what the solver says of that problem, `inside`; `moved` is what the steps
    cost beside it.
    """

    #: Behind the id of the solver.
    suffix: ClassVar[str]

    def __init__(self, inner: Solver, domain: Domain) -> None:
        self.inner = inner
        self.solver_id = inner.solver_id + self.suffix
        self.algorithm = inner.algorithm  # type: ignore[misc]  # of each, as all below
        self.version = inner.version  # type: ignore[misc]
        self.is_dynamic = inner.is_dynamic
        self.is_last_resort = inner.is_last_resort  # type: ignore[misc]
        self.backends = inner.backends
        self.result_roundings = inner.result_roundings
        self.domain = domain

    @abstractmethod
    def inside(self, problem: ConvProblem) -> ConvProblem:
        """Return the problem that the solver computes."""

    @abstractmethod
    def moved(self, problem: ConvProblem) -> int:
        """Return the bytes that the steps read and write."""

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Return the solver's index, less what the steps cost."""
        index = self.inner.wti(self.inside(problem), target)
        if not index:
            return index
        operations = problem.flops / index + _OPERATIONS_OF_A_BYTE * self.moved(problem)
        return problem.flops / operations

    def error_bound(self, problem: ConvProblem) -> float:
        """Return the solver's factor."""
        return self.inner.error_bound(self.inside(problem))

    def error_reach(self, problem: ConvProblem) -> int:
        """Return how far the solver's errors spread."""
        return self.inner.error_reach(self.inside(problem))

    def mixes_values(self, problem: ConvProblem) -> bool:
        """Return whether the solver mixes values."""
        return self.inner.mixes_values(self.inside(problem))


class CompletedTunable(Completed, TunableSolver):
    """The same of a solver with tuning parameters, which are its own."""

    inner: TunableSolver

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Return the solver's parameters."""
        return self.inner.search_space(self.inside(problem), target)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Return the solver's default."""
        return self.inner.default_config(self.inside(problem), target)
