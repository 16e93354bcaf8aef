"""`FindResult`: what a find returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from convfind.errors import NoSolverError
from convfind.find.solution import Solution
from convfind.solver.applicability import Rejected

if TYPE_CHECKING:
    from rich.table import Table


class FindOrigin(StrEnum):
    """Where the solutions of a find come from."""

    MEASURED = "measured"
    USER_DB = "user-db"
    SYSTEM_DB = "system-db"
    FALLBACK = "fallback"  # immediate mode: estimates, nothing ran


@dataclass(frozen=True, slots=True)
class FindResult:
    """Solutions, fastest first, those over the workspace limit last; and every refusal.

    Attributes:
        problem: key of the problem.
        device: identity of the device.
        mode: the find mode.
        origin: where the solutions come from.
        solutions: one for each solver that takes the problem.
        rejected: why others do not, by solver id.
        compiled: programs that a compiler translated.
        measured: solutions that the device timed.
        elapsed: seconds that the find took.
        flops: operations of the problem's direct formula.
        is_in_doubt: another may be the fastest; the next find measures again.
    """

    problem: str
    device: str
    mode: str
    origin: FindOrigin
    solutions: tuple[Solution, ...]
    rejected: Mapping[str, Rejected] = field(default_factory=dict)
    compiled: int = 0
    measured: int = 0
    elapsed: float = 0.0
    flops: float | None = None
    is_in_doubt: bool = False

    @property
    def summary(self) -> str:
        """The mode, the origin and the cost, in one line."""
        return (
            f"{self.mode}, answered by {self.origin.value}: {self.compiled} compiled, "
            f"{self.measured} measured, {self.elapsed:.3f} s"
        )

    @property
    def best(self) -> Solution:
        """The first solution within the workspace limit; `NoSolverError` if there is none."""
        for solution in self.solutions:
            if not solution.over_limit:
                return solution
        raise NoSolverError(self.problem, self.device, self.rejected)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``convfind find --json`` prints: plain values, ready for JSON."""
        return {
            "problem": self.problem,
            "device": self.device,
            "mode": self.mode,
            "origin": self.origin.value,
            "solutions": [solution.to_dict() for solution in self.solutions],
            "rejected": [
                {"solver": solver, "reason": why.reason.value, "detail": why.detail}
                for solver, why in self.rejected.items()
            ],
            "compiled": self.compiled,
            "measured": self.measured,
            "elapsed_s": self.elapsed,
            "in_doubt": self.is_in_doubt,
        }

    def __str__(self) -> str:
        """Return the table of solutions as text."""
        from convfind.text import table_text

        return table_text(self.__rich__())

    def __rich__(self) -> Table:
        """Return the table of solutions that ``rich.print`` shows."""
        from convfind.find.result_table import rich_table

        return rich_table(self)

    def _repr_html_(self) -> str:
        """Return the table of solutions that notebooks show."""
        from convfind.find.result_table import html_table

        return html_table(self)
