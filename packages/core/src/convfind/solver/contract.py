"""The contract of a solver: one way to compute a problem, mostly a convolution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, final

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.domain import Domain
from convfind.solver.recipe import Recipe
from convfind.solver.search_space import SearchSpace
from convfind.types import Algorithm


class Solver(ABC):
    """One way to compute problems of one type: convolutions, if the domain names no other.

    Solvers are stateless: one instance serves every problem, thread and device. They describe
    kernels and never touch a device. They see *plain* problems only (never ``mode="transpose"``),
    of their type, which is what their signatures say in place of Any.
    """

    #: ``<family>-<variant>`` in kebab case; never changes, even if the class is renamed.
    solver_id: str
    algorithm: ClassVar[Algorithm]
    #: Raise it when a change invalidates recorded times or configs; older records are then ignored.
    version: ClassVar[int] = 1
    #: True promises that N, H and W are run-time arguments: one binary serves many shapes.
    is_dynamic: bool = False
    #: True for slow kernels that take nearly everything: not timed if any other solver ran.
    is_last_resort: ClassVar[bool] = False
    #: How often a result is rounded to its type before it is complete.
    result_roundings: int = 1
    #: Devices of other backends are refused without calling `applicability`; empty: any backend.
    backends: tuple[str, ...] = ()
    #: The problems that it takes, as data: a `Domain`, or for another type than convolutions a
    #: `ProblemDomain`; other problems are refused without calling `applicability`.
    domain: Any = Domain()

    @abstractmethod
    def applicability(self, problem: Any, target: Target) -> Applicability:
        """Return whether the solver takes a problem of its domain: checks that depend on sizes.

        It is called very often: pure, without a device, in microseconds. Judge each problem on
        its own, whatever other solvers take. A refusal is a `Rejected`, not an exception.
        """

    @final
    def takes(self, problem: Any, target: Target) -> Applicability:
        """Return whether the solver takes the problem on the target: domain, backend, sizes."""
        refused = self.domain.refusal(problem, target)
        if refused is None:
            refused = self.backend_refusal(target)
        return self.applicability(problem, target) if refused is None else refused

    @final
    def backend_refusal(self, target: Target) -> Rejected | None:
        """Return why the target's backend is refused; None if it is not."""
        if not self.backends or target.backend in self.backends:
            return None
        return Rejected(Reason.BACKEND, f"{', '.join(self.backends)}; this is {target.backend}")

    def workspace_size(self, problem: Any, target: Target, limit: int | None = None) -> int:
        """Return the bytes of workspace that an unbound run needs with the default config.

        A solver that can use less (by working through the batch in parts) returns what it would
        use under ``limit`` bytes; otherwise the answer may exceed the limit.
        """
        return 0

    def wti(self, problem: Any, target: Target) -> float | None:
        """Return the weighted throughput index: expected fraction of the direct formula's peak.

        1.0 is the arithmetic peak; algorithms that save multiplications may exceed it. None:
        unknown.
        """
        return None

    def error_bound(self, problem: Any) -> float:
        """Return the factor by which rounding errors may exceed those of plain summation."""
        return 1.0

    def error_reach(self, problem: Any) -> int:
        """Return how far rounding errors spread, in result elements along each spatial axis.

        0 for sums of the element's own products. An algorithm that transforms tiles mixes the
        products of the whole tile into each result: an error is proportional to the largest
        magnitude within this reach, not only to the element's own.
        """
        return 0

    def mixes_values(self, problem: Any) -> bool:
        """Return whether a NaN or infinity may reach results of its image that do not read it.

        True for algorithms that transform tiles, that add numbers before they multiply, or that
        multiply data of other results by zero. They are refused with ``accuracy=strict``.
        """
        return self.error_reach(problem) > 0

    @abstractmethod
    def solution(
        self,
        problem: Any,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """Describe how to compute the problem: kernels, steps, memory. Runs nothing.

        Called only for problems that the solver takes. ``config`` is None for the default.
        """


class TunableSolver(Solver):
    """A solver with tuning parameters."""

    @abstractmethod
    def search_space(self, problem: Any, target: Target) -> SearchSpace:
        """Return the parameters, their values and the constraints among them, as data."""

    @abstractmethod
    def default_config(self, problem: Any, target: Target) -> Config:
        """Return a good valid config, in constant time."""


def versioned_id(solver: Solver) -> str:
    """Return the id with the version, as a database entry's ``considered`` list has it."""
    return f"{solver.solver_id}@{solver.version}"
