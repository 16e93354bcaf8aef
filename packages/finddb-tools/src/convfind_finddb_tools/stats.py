"""Counts of a database's contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from convfind_finddb_tools.entry import Entry


@dataclass(slots=True)
class Statistics:
    """Counts over entries. Shares of winners count each problem on each device once."""

    entries: int = 0
    results: int = 0
    zero_times: int = 0
    origins: Counter[str] = field(default_factory=Counter)
    devices: Counter[str] = field(default_factory=Counter)
    directions: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    layouts: Counter[str] = field(default_factory=Counter)
    algorithm_winners: Counter[str] = field(default_factory=Counter)
    solver_winners: Counter[str] = field(default_factory=Counter)
    solvers: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Statistics:
        """Count entries."""
        statistics = cls()
        for entry in entries:
            statistics._add(entry)
        return statistics

    def _add(self, entry: Entry) -> None:
        self.entries += 1
        self.results += len(entry.results)
        self.origins[entry.origin] += 1
        self.devices[entry.device] += 1
        self.directions[entry.traits.direction] += 1
        self.dtypes[entry.traits.dtype] += 1
        self.layouts[entry.traits.layout] += 1
        for result in entry.results:
            self.solvers[result.solver] += 1
            self.zero_times += result.time_ms == 0
        winner = entry.winner
        if winner is not None:
            self.algorithm_winners[winner.algorithm] += 1
            self.solver_winners[winner.solver] += 1
