"""`FindResult`: what a find returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from convfind.errors import NoSolverError
from convfind.find.solution import Solution
from convfind.solver.applicability import Rejected


class FindOrigin(StrEnum):
    """Where the solutions of a find come from."""

    MEASURED = "measured"
    USER_DB = "user-db"
    SYSTEM_DB = "system-db"
    FALLBACK = "fallback"  # immediate mode: estimates, nothing ran


@dataclass(frozen=True, slots=True)
class FindResult:
    """Solutions, fastest first, those over the workspace limit last; and every refusal."""

    problem: str
    device: str
    mode: str
    origin: FindOrigin
    solutions: tuple[Solution, ...]
    rejected: Mapping[str, Rejected] = field(default_factory=dict)
    compiled: int = 0  # programs that a compiler translated
    measured: int = 0  # solutions that the device timed
    elapsed: float = 0.0  # seconds

    @property
    def best(self) -> Solution:
        """The first solution within the workspace limit; `NoSolverError` if there is none."""
        for solution in self.solutions:
            if not solution.over_limit:
                return solution
        raise NoSolverError(self.problem, self.device, self.rejected)
