"""The contract of a heuristic: ranking solvers without running them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from convfind.problem import ConvProblem
from convfind.target import Target


@dataclass(frozen=True, slots=True)
class Prediction:
    """An expected time of one solver."""

    solver: str
    time_ms: float
    confidence: float  # 0 to 1


class Heuristic(Protocol):
    """A model that ranks solvers for problems inside its stated domain."""

    name: str

    def predict(
        self, problem: ConvProblem, target: Target, solvers: Sequence[str]
    ) -> Sequence[Prediction] | None:
        """Rank the given applicable solvers, fastest first; None outside the model's domain."""
