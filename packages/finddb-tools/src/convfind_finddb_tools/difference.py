"""Comparing two databases, problem by problem and solver by solver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from convfind.finddb.key import SCHEMA, stored_key
from convfind_finddb_tools.entry import Entry


@dataclass(frozen=True, slots=True)
class SolverChange:
    """A solver's least times in both databases; None if it has none."""

    solver: str
    first_ms: float | None
    second_ms: float | None

    @property
    def ratio(self) -> float | None:
        """Time in the second over time in the first."""
        if not self.first_ms or self.second_ms is None:
            return None
        return self.second_ms / self.first_ms


@dataclass(frozen=True, slots=True)
class Difference:
    """A problem on a device about which two databases disagree; None if one lacks it."""

    first: Entry | None
    second: Entry | None
    changes: tuple[SolverChange, ...] = ()

    @property
    def entry(self) -> Entry:
        """The entry of either database."""
        entry = self.first or self.second
        assert entry is not None
        return entry

    @property
    def winner_changed(self) -> bool:
        """True if both have a fastest solver, and not the same."""
        if self.first is None or self.second is None:
            return False
        return _winner(self.first) != _winner(self.second)


def differences(
    first: Iterator[Entry], second: Iterator[Entry], threshold: float
) -> Iterator[Difference]:
    """Compare entries, both in the order of databases; times closer than the threshold agree.

    Args:
        first: from one database.
        second: from another one.
        threshold: relative, 0.05 for 5 %.
    """
    a, b = next(first, None), next(second, None)
    while a is not None or b is not None:
        if b is None or (a is not None and _place(a) < _place(b)):
            yield Difference(a, None)
            a = next(first, None)
        elif a is None or _place(b) < _place(a):
            yield Difference(None, b)
            b = next(second, None)
        else:
            changes = tuple(_changes(a, b, threshold))
            if changes:
                yield Difference(a, b, changes)
            a, b = next(first, None), next(second, None)


def _changes(a: Entry, b: Entry, threshold: float) -> Iterator[SolverChange]:
    first, second = _least_times(a), _least_times(b)
    for solver in sorted(first.keys() | second.keys()):
        change = SolverChange(solver, first.get(solver), second.get(solver))
        if change.first_ms is None or change.second_ms is None:
            yield change
            continue
        low, high = sorted((change.first_ms, change.second_ms))
        if high > low * (1 + threshold):
            yield change


def _least_times(entry: Entry) -> dict[str, float]:
    times: dict[str, float] = {}
    for result in entry.results:
        times[result.solver] = min(result.time_ms, times.get(result.solver, result.time_ms))
    return times


def _winner(entry: Entry) -> str | None:
    return entry.winner.solver if entry.winner else None


def _place(entry: Entry) -> tuple[str, bytes]:
    """Return an entry's position in the order of a database."""
    return entry.origin, stored_key(f"{SCHEMA}|{entry.device}|{entry.problem}".encode())
