"""Measuring a sample of records again to detect drift."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from convfind import ConvfindError, FindMode, Handle
from convfind.finddb.record import FindRecord
from convfind_finddb_tools.entry import Entry


@dataclass(frozen=True, slots=True)
class Drift:
    """A record and its time measured now; ``now_ms`` is None if nothing was measured."""

    problem: str
    solver: str
    recorded_ms: float
    now_ms: float | None
    reason: str = ""  # why nothing was measured

    @property
    def ratio(self) -> float | None:
        """Time now over the recorded one."""
        return None if self.now_ms is None else self.now_ms / self.recorded_ms

    @property
    def factor(self) -> float:
        """The greater of the two times over the lesser; 1 where nothing was measured."""
        return 1.0 if self.ratio is None else max(self.ratio, 1 / self.ratio)

    def exceeds(self, threshold: float) -> bool:
        """Return whether the times differ by more than a share of the lesser one."""
        return self.factor > 1 + threshold


def sample_winners(
    entries: Iterable[Entry], identities: Container[str], size: int, seed: int
) -> list[tuple[str, FindRecord]]:
    """Draw a sample of a device's fastest records, determined by the seed."""
    winners = [
        (entry.problem, entry.winner.record)
        for entry in entries
        if entry.device in identities and entry.winner and entry.winner.record
    ]
    return sorted(random.Random(seed).sample(winners, min(size, len(winners))), key=_problem)


def measure_again(
    handle: Handle,
    records: Sequence[tuple[str, FindRecord]],
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Drift]:
    """Measure each record's solver on its problem; the database stays as it is."""
    found = []
    for number, (problem, record) in enumerate(records):
        on_progress(number)
        found.append(_measure(handle, problem, record))
    return found


def _problem(item: tuple[str, FindRecord]) -> str:
    return item[0]


def _measure(handle: Handle, problem: str, record: FindRecord) -> Drift:
    if handle.registry.find_solver(record.solver) is None:
        return Drift(problem, record.solver, record.time_ms, None, "not installed")
    try:
        result = handle.find(
            handle.registry.problem_from_key(problem),
            FindMode.NORMAL,
            use_db=False,
            write_back=False,
            dynamic_only=False,
            solvers=frozenset({record.solver}),
            constant_weights=record.constant_weights,
        )
    except ConvfindError as exc:
        return Drift(problem, record.solver, record.time_ms, None, str(exc))
    for solution in result.solutions:
        if solution.time_origin.is_measured:
            return Drift(problem, record.solver, record.time_ms, solution.time_ms)
    why = result.rejected.get(record.solver)
    return Drift(problem, record.solver, record.time_ms, None, str(why or "not installed"))
