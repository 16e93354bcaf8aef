"""`Draw`: random contents of a problem's tensors, and whether results are right for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from convfind.checking.accuracy import ErrorReport
from convfind.checking.held import Held
from convfind.checking.random_numbers import Part
from convfind.checking.reference import Right
from convfind.problem.contract import Problem
from convfind.runtime.tensors import empty_memory
from convfind.solver import Solver

Array = np.ndarray[Any, Any]
#: Results by name, axes in the order of their layouts.
Results = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Computed:
    """A result that a last resort has computed on a device, unchecked; it may stay there."""

    result: Array | Held
    solver: Solver

    def whole(self) -> Array:
        """Return all of the result, axes in the order of its layout."""
        return self.result.whole() if isinstance(self.result, Held) else self.result

    def rows(self, places: Array) -> Array:
        """Return what lies at some places of the first axis."""
        held = self.result
        return held.rows(places) if isinstance(held, Held) else held[places]


class Assistant(Protocol):
    """Computes on a device, with a last resort, summing in the widest type."""

    def __call__(self, problem: Problem, /, memory: Results | None = None) -> Computed | None:
        """Compute another problem from a draw's tensors; None where that is not possible.

        Args:
            problem: the problem, with one result.
            memory: what the tensors hold instead of what the draw says, by name.
        """


def no_assistant(problem: Problem, memory: Results | None = None) -> None:
    """Have nobody who computes on a device."""


class Draw(ABC):
    """One draw for a plain problem.

    It is nobody else's memory: devices get copies, so whatever a kernel does to its tensors, what
    they were and what is right for them stays known.
    """

    def __init__(self, problem: Problem, seed: int, memory: Results) -> None:
        self.problem = problem
        self.seed = seed
        #: Memory of the tensors that are read, by name, gaps included.
        self.memory = memory
        #: Tensors that are parts of rings of random numbers, by name.
        self.parts: Mapping[str, Part] = {}
        #: Memory of the previous contents of the results, by name.
        self.before = {name: empty_memory(problem, name) for name in problem.writes}

    @property
    def reads_results(self) -> bool:
        """True if a run adds to what the results were."""
        return False

    @property
    def compared(self) -> Right | Held | None:
        """The values that all elements are compared with; None where a check does more."""
        return None

    def begin(self) -> None:  # noqa: B027  # a draw that a device has no part in has nothing to do
        """Have other threads begin with what `make_ready` needs where a device computes."""

    @abstractmethod
    def make_ready(self, assistant: Assistant = no_assistant) -> bool:
        """Compute all that `check` compares with, before anybody's kernel has run.

        Returns:
            True where the assistant has computed it, and was right.
        """

    @abstractmethod
    def make_ready_again(self, assistant: Assistant = no_assistant) -> None:
        """Compute all that `check_again` compares with; the assistant is known to be right."""

    @abstractmethod
    def check(self, results: Results, solver: Solver) -> ErrorReport:
        """Compare results with what is right; return their errors.

        Raises:
            VerificationError: a result is wrong.
            SolverError: the solver does not say what errors it may have.
        """

    @abstractmethod
    def check_again(self, results: Results, solver: Solver) -> None:
        """Check results of a solver whose results were right before: this may be quicker.

        Raises as `check` does.
        """

    def judge(self, error: ErrorReport, solver: Solver) -> ErrorReport:
        """Return an error from what is ``compared`` if it is small enough for `check`.

        Raises as `check` does.
        """
        raise NotImplementedError

    def judge_again(self, error: ErrorReport, solver: Solver) -> None:
        """Do so for `check_again`."""
        raise NotImplementedError
