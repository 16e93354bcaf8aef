"""`Selection`: the entries that a command uses."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from convfind.finddb.record import FindEntry, FindRecord, QuarantineRecord, TunedConfig
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind.kit.completions import own_id
from convfind_finddb_tools.database import FOREIGN, FOREIGN_CONFIG, Snapshot
from convfind_finddb_tools.entry import (
    Entry,
    Measured,
    Traits,
    foreign_entries,
    own_entries,
    split_key,
    traits_of,
)
from convfind_finddb_tools.miopen_text import results
from convfind_finddb_tools.perf_text import configs

_DAY = 86400


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions combined by "and"; None and empty ones do not restrict.

    Attributes:
        origin: ``convfind`` or ``miopen``.
        direction: ``fwd``, ``bwd-data`` or ``bwd-weights``.
        dtype: data type of the problem.
        layout: layout of x.
        device: part of the device's identity, in any case of letters.
        solver: the solver's id; only its records remain.
        algorithm: an algorithm family; only its records remain.
        package: a distribution, without its version; only its solvers' records remain.
        stale: only records of another driver than the one a device here has now, by `drivers`.
        older_than: only records at least so many days old.
        newer_than: only records at most so many days old.
        drivers: driver of each device that is here, by its identity.
        packaged: ids of the package's solvers that are installed here, for values without packages.
    """

    origin: str | None = None
    direction: str | None = None
    dtype: str | None = None
    layout: str | None = None
    device: str | None = None
    solver: str | None = None
    algorithm: str | None = None
    package: str | None = None
    stale: bool = False
    older_than: float | None = None
    newer_than: float | None = None
    drivers: Mapping[str, str] = field(default_factory=dict)
    packaged: Collection[str] = ()
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
            *(self.solver, self.algorithm, self.package, self.older_than, self.newer_than),
        )
        return self.stale or any(condition is not None for condition in conditions)

    @property
    def restricts_results(self) -> bool:
        """True where records of a problem may be left out, and not only whole problems."""
        return self._needs_provenance or self.solver is not None or self.algorithm is not None

    def narrowed(self, table: str, key: bytes, value: Any) -> Any:
        """Return the selected part of a value of any sub-database, None if it is empty.

        Tuned configs do not tell algorithm and driver, quarantines not the algorithm, and what
        comes from MIOpen neither driver nor age nor package: filters for these leave them out.
        """
        if not self.restricts:
            return value
        device, problem = split_key(key)
        foreign = table in (FOREIGN, FOREIGN_CONFIG)
        traits = traits_of(table, problem)
        if self.origin not in (None, "miopen" if foreign else "convfind"):
            return None
        if not self._takes(device, traits):
            return None
        if not self.restricts_results:
            return value
        return _NARROW[table](self, device, value)

    def _narrow_entry(self, device: str, value: FindEntry) -> FindEntry | None:
        kept = tuple(record for record in value.records if self._takes_record(device, record))
        if not kept:
            return None
        names = {f"{one.solver}@{one.solver_version}" for one in kept}
        gone = {f"{one.solver}@{one.solver_version}" for one in value.records} - names
        # Who is left out was not considered there: the next find has to measure it.
        considered = tuple(name for name in value.considered if name not in gone)
        return FindEntry(records=kept, considered=considered)

    def _narrow_configs(
        self, device: str, value: tuple[TunedConfig, ...]
    ) -> tuple[TunedConfig, ...] | None:
        if self.stale or self.algorithm is not None:
            return None
        return tuple(one for one in value if self._takes_unpackaged(one)) or None

    def _narrow_quarantine(
        self, device: str, value: tuple[QuarantineRecord, ...]
    ) -> tuple[QuarantineRecord, ...] | None:
        if self.algorithm is not None:
            return None
        kept = (
            one
            for one in value
            if self._takes_unpackaged(one)
            and not (self.stale and one.driver == self.drivers.get(device, one.driver))
        )
        return tuple(kept) or None

    def _narrow_foreign(self, device: str, value: bytes) -> bytes | None:
        if self._needs_provenance:
            return None
        kept = [
            result.text
            for result in results(value)
            if self.solver in (None, result.solver) and self.algorithm in (None, result.family)
        ]
        return ";".join(kept).encode() or None

    def _narrow_foreign_config(self, device: str, value: bytes) -> bytes | None:
        if self._needs_provenance or self.algorithm is not None:
            return None
        kept = [text for solver, text in configs(value) if self.solver in (None, solver)]
        return ";".join(kept).encode() or None

    @property
    def _needs_provenance(self) -> bool:
        """True where only records that say when and how they were measured can be selected."""
        conditions = (self.older_than, self.newer_than, self.package)
        return self.stale or any(condition is not None for condition in conditions)

    def _select(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if not self._takes(entry.device, entry.traits):
                continue
            results = tuple(
                result for result in entry.results if self._takes_result(entry.device, result)
            )
            if results:
                yield dataclasses.replace(entry, results=results)

    def _takes(self, device: str, traits: Traits) -> bool:
        return (
            self.direction in (None, traits.direction)
            and self.dtype in (None, traits.dtype)
            and self.layout in (None, traits.layout)
            and (self.device is None or self.device.lower() in device.lower())
        )

    def _takes_result(self, device: str, result: Measured) -> bool:
        if result.record is not None:
            return self._takes_record(device, result.record)
        return (
            not self._needs_provenance
            and self.solver in (None, result.solver)
            and self.algorithm in (None, result.algorithm)
        )

    def _takes_record(self, device: str, record: FindRecord) -> bool:
        return (
            self._takes_evidence(record.solver, record.created)
            and self.algorithm in (None, record.algorithm)
            and self.package in (None, record.package.partition(" ")[0])
            and not (self.stale and record.driver == self.drivers.get(device, record.driver))
        )

    def _takes_unpackaged(self, one: TunedConfig | QuarantineRecord) -> bool:
        return self._takes_evidence(one.solver, one.created) and (
            self.package is None or own_id(one.solver) in self.packaged
        )

    def _takes_evidence(self, solver: str, created: int) -> bool:
        age = (self.now - created) / _DAY
        return (
            self.solver in (None, solver)
            and not (self.older_than is not None and age < self.older_than)
            and not (self.newer_than is not None and age > self.newer_than)
        )


_NARROW: dict[str, Callable[[Selection, str, Any], Any]] = {
    FIND.name: Selection._narrow_entry,
    CONFIG.name: Selection._narrow_configs,
    QUARANTINE.name: Selection._narrow_quarantine,
    FOREIGN: Selection._narrow_foreign,
    FOREIGN_CONFIG: Selection._narrow_foreign_config,
}
