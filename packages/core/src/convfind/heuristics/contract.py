"""The contract of a heuristic: ranking solvers without running them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from convfind.device.target import Target
from convfind.heuristics.neighbours import Neighbour, Records
from convfind.solver import Solver


class Prediction(NamedTuple):  # three times as fast to make as a frozen dataclass
    """An expected time of one solver."""

    solver: str
    time_ms: float
    confidence: float  # 0 to 1: probability that the solver is the fastest of those asked about


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """Refusal of a heuristic that does not know this device, problem or set of solvers."""

    reason: str


class Heuristic(Protocol):
    """A model that ranks solvers for problems inside its stated domain.

    It is asked about convolutions, or about the kind of problem that an attribute ``kind`` says.
    """

    name: str

    def predict(
        self, problem: Any, target: Target, solvers: Sequence[Solver]
    ) -> Sequence[Prediction] | NotApplicable:
        """Rank applicable solvers for a plain problem, fastest first.

        Solvers missing from the answer are ranked after it, by the fallbacks that follow.
        """


class NeighbourHeuristic(Protocol):
    """A heuristic that uses the records of other problems."""

    name: str

    def neighbours(self, problem: Any, target: Target, records: Records) -> tuple[Neighbour, ...]:
        """Look up the records that help with a plain problem; empty if there are none."""

    def predict(
        self,
        problem: Any,
        target: Target,
        solvers: Sequence[Solver],
        neighbours: Sequence[Neighbour] = (),
    ) -> Sequence[Prediction] | NotApplicable:
        """Rank as `Heuristic` does, with these records."""
