"""`Library`: the databases that are served, read anew when their files change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from convfind.finddb.table import CONFIG
from convfind_finddb_tools.database import Snapshot, database_path
from convfind_finddb_tools.entry import Entry, split_key
from convfind_finddb_tools.quarantine import Quarantined, quarantined
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.tune.state import State, journal_path, read_runs
from convfind_finddb_tools.tune.workload import WorkloadLine, read_workload, workload_path


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of one database when it was read.

    Attributes:
        configs: the tuned configs as text, by device, problem and solver.
    """

    entries: tuple[Entry, ...]
    quarantine: tuple[Quarantined, ...]
    configs: Mapping[tuple[str, str, str], str]
    workload: tuple[WorkloadLine, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices with records, in the order of the database."""
        return tuple(dict.fromkeys(entry.device for entry in self.entries))


class Library:
    """Databases by the names that pages have for them."""

    def __init__(self, databases: Mapping[str, Path]) -> None:
        self._paths = {name: database_path(path) for name, path in databases.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the databases."""
        return tuple(self._paths)

    def contents(self, name: str) -> Contents:
        """Read a database. Raises `KeyError` for another name, `FindDbError` for a fault."""
        path = self._paths[name]
        workload = workload_path(path)
        return _contents(path, _stamp(path), workload, _stamp(workload))

    def runs(self, name: str) -> tuple[State, ...]:
        """Read what `convfind tune` did to a database. Raises `KeyError` for another name."""
        path = self._paths[name]
        return _runs(path, _stamp(journal_path(path)))


def _stamp(path: Path) -> tuple[int, int]:
    """Return what changes with the content of a file."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4)
def _contents(path: Path, _: tuple[int, int], workload: Path, __: tuple[int, int]) -> Contents:
    everything = Selection()
    with Snapshot(path) as snapshot:
        configs: dict[tuple[str, str, str], str] = {}
        for key, sealed in snapshot.items(CONFIG.name):
            device, problem = split_key(key)
            for tuned in CONFIG.unpack(key, sealed, snapshot.get) or ():
                words = (f"{name}={value}" for name, value in tuned.config.items())
                configs[device, problem, tuned.solver] = " ".join(words)
        return Contents(
            tuple(everything.entries(snapshot)),
            tuple(quarantined(snapshot, everything)),
            configs,
            read_workload(workload),
        )


@lru_cache(maxsize=4)
def _runs(path: Path, _: tuple[int, int]) -> tuple[State, ...]:
    return read_runs(path)
