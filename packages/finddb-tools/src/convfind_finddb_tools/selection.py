"""`Selection`: which entries a command looks at."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.entry import Entry, Measured, foreign_entries, own_entries

_DAY = 86400


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that all have to hold; None and empty ones do not restrict.

    Attributes:
        origin: ``convfind`` or ``miopen``.
        direction: ``fwd``, ``bwd-data`` or ``bwd-weights``.
        dtype: data type of the problem.
        layout: layout of x.
        device: part of the device's identity, in any case of letters.
        solver: the solver's id; only its results remain.
        algorithm: an algorithm family; only its results remain.
        stale: only results of another driver than the one a device here has now, by `drivers`.
        older_than: only results at least so many days old.
        newer_than: only results at most so many days old.
        drivers: driver of each device that is here, by its identity.
    """

    origin: str | None = None
    direction: str | None = None
    dtype: str | None = None
    layout: str | None = None
    device: str | None = None
    solver: str | None = None
    algorithm: str | None = None
    stale: bool = False
    older_than: float | None = None
    newer_than: float | None = None
    drivers: Mapping[str, str] = field(default_factory=dict)
    now: float = field(default_factory=time.time)

    def entries(self, snapshot: Snapshot) -> Iterator[Entry]:
        """Read what is selected; ours first, then MIOpen's, each in the order of the keys."""
        if self.origin in (None, "convfind"):
            yield from self._select(own_entries(snapshot))
        if self.origin in (None, "miopen") and not self._needs_provenance:
            yield from self._select(foreign_entries(snapshot))

    @property
    def restricts(self) -> bool:
        """True where any condition is set."""
        conditions = (
            *(self.origin, self.direction, self.dtype, self.layout, self.device),
            *(self.solver, self.algorithm, self.older_than, self.newer_than),
        )
        return self.stale or any(condition is not None for condition in conditions)

    @property
    def _needs_provenance(self) -> bool:
        """True where only records that say when and how they were measured can be selected."""
        return self.stale or self.older_than is not None or self.newer_than is not None

    def _select(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if not self._takes(entry):
                continue
            results = tuple(result for result in entry.results if self._takes_result(entry, result))
            if results:
                yield dataclasses.replace(entry, results=results)

    def _takes(self, entry: Entry) -> bool:
        traits = entry.traits
        return (
            self.direction in (None, traits.direction)
            and self.dtype in (None, traits.dtype)
            and self.layout in (None, traits.layout)
            and (self.device is None or self.device.lower() in entry.device.lower())
        )

    def _takes_result(self, entry: Entry, result: Measured) -> bool:
        if self.solver not in (None, result.solver):
            return False
        if self.algorithm not in (None, result.algorithm):
            return False
        record = result.record
        if record is None:
            return not self._needs_provenance
        driver = self.drivers.get(entry.device, record.driver)
        age = (self.now - record.created) / _DAY
        return (
            not (self.stale and record.driver == driver)
            and not (self.older_than is not None and age < self.older_than)
            and not (self.newer_than is not None and age > self.newer_than)
        )
