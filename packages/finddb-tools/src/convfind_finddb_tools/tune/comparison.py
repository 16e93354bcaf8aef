"""Comparison of strategies and budgets on recorded measurements: their costs and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from convfind.finddb.record import FindEntry
from convfind.problem import ConvProblem
from convfind_finddb_tools.tune.neighbours import by_weight, representatives, seed_from
from convfind_finddb_tools.tune.order import Order, Strategy, Task
from convfind_finddb_tools.tune.replay import ReplayStation, seconds_of
from convfind_finddb_tools.tune.simulation import Scenario, Simulation, SimulationReport


@dataclass(frozen=True, slots=True)
class Compared:
    """One strategy on one number of workers.

    Attributes:
        found_ms: time of all occurrences with what was found in time; problems that were not
            reached run by the slowest of their recorded solvers, as who picks without measuring
            may.
        best_ms: the same with the best that is recorded.
    """

    strategy: Strategy
    workers: int
    budget: float | None
    report: SimulationReport
    problems: int
    found_ms: float
    best_ms: float


class Recorded:
    """A database's records for some problems, and the part that each strategy would have found."""

    def __init__(
        self, database: Path, device: str | None, problems: Sequence[ConvProblem] | None
    ) -> None:
        """Read the entries of the problems, or of all that the database has.

        Raises:
            FindDbError: the database cannot be used, or has several devices and none is named.
        """
        devices = () if device is None else (device,)
        order = Order(strategy=Strategy.FULL, devices=devices, replay=str(database))
        station = ReplayStation(order)
        try:
            chosen = station.problems() if problems is None else problems
            found = {problem.key: station.measure(Task(problem=problem.key)) for problem in chosen}
        finally:
            station.close()
        self.device = station.identity.device
        self.entries: dict[str, FindEntry] = {
            key: outcome.found.entry
            for key, outcome in found.items()
            if outcome.found.entry is not None and outcome.found.entry.records
        }
        self.problems = [problem for problem in chosen if problem.key in self.entries]

    def compare(
        self,
        strategy: Strategy,
        workers: int,
        counts: Mapping[str, int],
        *,
        budget: float | None = None,
        mean_life: float | None = None,
    ) -> Compared:
        """Simulate a strategy."""
        ordered = by_weight(self.problems, dict(counts))
        after = representatives(ordered) if strategy is Strategy.NEIGHBOURS else {}
        found = {key: self._measured(key, after.get(key, key)) for key in self.entries}
        tunes = strategy is not Strategy.DEFAULTS
        seconds = {
            key: seconds_of(entry.records, tuned=tunes and after.get(key, key) == key)
            for key, entry in found.items()
        }
        names = [problem.key for problem in ordered]
        report = Simulation(
            Scenario(workers, names, seconds.__getitem__, after, budget, mean_life)
        ).go()
        reached = set(report.finished)
        found_ms = best_ms = 0.0
        for key, entry in self.entries.items():
            times = [record.time_ms for record in entry.records]
            chosen = min(record.time_ms for record in found[key].records)
            found_ms += counts.get(key, 1) * (chosen if key in reached else max(times))
            best_ms += counts.get(key, 1) * min(times)
        return Compared(strategy, workers, budget, report, len(names), found_ms, best_ms)

    def _measured(self, key: str, neighbour: str) -> FindEntry:
        """Return what is measured of a problem that another one may represent."""
        entry = self.entries[key]
        if neighbour == key:
            return entry
        seed = seed_from(self.entries.get(neighbour))
        if seed is None:
            return entry
        some = tuple(record for record in entry.records if record.solver in seed.solvers)
        return msgspec.structs.replace(entry, records=some) if some else entry
