"""`Draw`: random contents of a problem's tensors, and whether results are right for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from convfind.checking.accuracy import ErrorReport
from convfind.checking.reference import Right
from convfind.problem.contract import Problem
from convfind.runtime.tensors import empty_memory, memory_of
from convfind.solver import Solver

Array = np.ndarray[Any, Any]
#: Results by name, axes in the order of their layouts.
Results = Mapping[str, Array]
#: Computes another problem from a draw's tensors with a last resort, on the device, summing in the
#: widest type; None where that is not possible. Returns the results and the solver, unchecked.
Assistant = Callable[[Problem], tuple[Results, Solver] | None]


def no_assistant(problem: Problem) -> None:
    """Have nobody who computes on a device."""


class Draw(ABC):
    """One draw for a plain problem.

    It is nobody else's memory: devices get copies, so whatever a kernel does to its tensors, what
    they were and what is right for them stays known.
    """

    def __init__(self, problem: Problem, seed: int, inputs: Results) -> None:
        self.problem = problem
        self.seed = seed
        #: Memory of the tensors that are read, by name, gaps included.
        self.memory = {name: memory_of(problem, name, values) for name, values in inputs.items()}
        #: Memory of the previous contents of the results, by name.
        self.before = {name: empty_memory(problem, name) for name in problem.writes}

    @property
    def reads_results(self) -> bool:
        """True if a run adds to what the results were."""
        return False

    @property
    def compared(self) -> Right | None:
        """The values that all elements are compared with; None where a check does more."""
        return None

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
