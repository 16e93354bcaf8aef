"""`FindDb`: the database that finds read and write, in layers."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from convfind.device.target import Target
from convfind.finddb.database_file import DatabaseFile, file_in
from convfind.finddb.environment import Layout
from convfind.finddb.key import SCHEMA, database_key, identity_key, stored_key
from convfind.finddb.merge import (
    StoredEntry,
    entry_without,
    layer_entries,
    merge_entries,
    reconsidered,
)
from convfind.finddb.record import FindEntry, QuarantineRecord, TunedConfig
from convfind.finddb.roster import ROSTER
from convfind.finddb.table import CONFIG, FIND, QUARANTINE, Table
from convfind.finddb.user_layer import Stored, UserLayer
from convfind.problem.contract import Problem
from convfind.solver.config import Config

T = TypeVar("T")

FILE_NAME = "finddb.lmdb"
LAYOUT = Layout(tables=(FIND.name, CONFIG.name, QUARANTINE.name, ROSTER), schema=SCHEMA)


class FindDb:
    """Records of one user over those that packages ship. Reading and writing never fail.

    Where a database cannot be used, one `FindDbWarning` says so, `health` lists why, and what is
    stored stays in memory. Safe to share between threads, and to keep across a fork.
    """

    def __init__(self, user: DatabaseFile | None, system: Sequence[DatabaseFile]) -> None:
        self._user = UserLayer(user)
        self._system = tuple(system)
        self._as_one = lru_cache(maxsize=256)(self._united)

    @classmethod
    def open(
        cls,
        user_path: Path | None,
        system_paths: Sequence[Path] = (),
        *,
        allow_network: bool = False,
    ) -> FindDb:
        """Prepare a database; no file is touched before its first use.

        Args:
            user_path: folder of the user's database (or the file itself, ``*.lmdb``); None keeps
                everything in memory.
            system_paths: read-only databases, folders or files; earlier ones win.
            allow_network: use the user's database also where it lies on a network file system. Only
                right where a single machine ever writes to it.
        """
        user = None
        if user_path is not None:
            user = DatabaseFile(
                file_in(user_path, FILE_NAME), LAYOUT, writable=True, allow_network=allow_network
            )
        files = dict.fromkeys(file_in(path, FILE_NAME) for path in system_paths)
        system = [
            DatabaseFile(file, LAYOUT, writable=False)
            for file in files
            if user is None or _without_links(file) != _without_links(user.path)
        ]
        return cls(user, system)

    # -- find records ---------------------------------------------------------------------------

    def lookup(self, target: Target, problem: Problem) -> StoredEntry | None:
        """Everything recorded for a problem on a device, None where nothing is."""
        return self._entry(database_key(target, problem))

    def times(
        self, identity: str, problem: Problem, *, constant_weights: bool = False
    ) -> dict[str, float]:
        """The fastest time of each solver, by versioned id, on a device that may not be here.

        With constant weights or without. Milliseconds; empty where nothing is recorded.
        """
        stored = self._entry(identity_key(identity, problem))
        found: dict[str, float] = {}
        for record in () if stored is None else stored.entry.records:  # fastest first
            if record.constant_weights == constant_weights:
                found.setdefault(f"{record.solver}@{record.solver_version}", record.time_ms)
        return found

    def layers(
        self, target: Target, problem: Problem
    ) -> tuple[tuple[Path | None, FindEntry | None], ...]:
        """Return the entry of each layer by itself: the user's, then the shipped, topmost first.

        With the file of each; None stands for a user's layer that is only in memory.
        """
        key = database_key(target, problem)
        user = self._user.file
        found = [(None if user is None else user.path, self._user.get(FIND, key))]
        for file, sealed in zip(self._system, self._sealed(FIND, key), strict=True):
            found.append((file.path, FIND.unpack(key, sealed, file.get)))
        return tuple(found)

    def own(
        self, target: Target, problem: Problem
    ) -> tuple[FindEntry | None, tuple[TunedConfig, ...], tuple[QuarantineRecord, ...]]:
        """Records, tuned configs and quarantine that the user's layer by itself has."""
        key = database_key(target, problem)
        return (
            self._user.get(FIND, key),
            self._user.get(CONFIG, key) or (),
            self._user.get(QUARANTINE, key) or (),
        )

    def store(
        self,
        target: Target,
        problem: Problem,
        entry: FindEntry,
        *,
        replace: bool = False,
        tuned_again: bool = False,
    ) -> None:
        """Add records to the user's database.

        A record that is there gives way only to one that supersedes it; see `merge_entries`, also
        for ``replace`` and ``tuned_again``.
        """

        def change(old: FindEntry | None) -> FindEntry:
            return merge_entries(old, entry, replace=replace, tuned_again=tuned_again)

        self._user.update(FIND, database_key(target, problem), change)

    def remove(
        self, target: Target, problem: Problem, solvers: Container[str] | None = None
    ) -> None:
        """Forget the user's records and tuned configs of a problem. Shipped entries stay.

        Args:
            target: the device.
            problem: the problem.
            solvers: ids of the solvers to forget; None forgets all of them.
        """
        key = database_key(target, problem)

        def without(old: FindEntry | None) -> FindEntry | None:
            return None if old is None or solvers is None else entry_without(old, solvers)

        def kept(old: tuple[TunedConfig, ...] | None) -> tuple[TunedConfig, ...] | None:
            if solvers is None:
                return None
            return tuple(tuned for tuned in old or () if tuned.solver not in solvers) or None

        self._user.update(FIND, key, without)
        self._user.update(CONFIG, key, kept)

    def entries(self, prefix: str = "") -> Iterator[tuple[str, FindEntry]]:
        """Keys and entries of the user's database whose key starts so."""
        for key, entry in self._user.items(FIND, prefix.encode()):
            yield key.decode(), entry

    # -- tuned configs --------------------------------------------------------------------------

    def config(
        self, target: Target, problem: Problem, solver_id: str, solver_version: int
    ) -> Config | None:
        """The tuned config of that very solver version, the user's before a shipped one."""
        key = database_key(target, problem)
        for configs in (self._user.get(CONFIG, key), *self._shipped(CONFIG, key)):
            for tuned in configs or ():
                if (tuned.solver, tuned.solver_version) == (solver_id, solver_version):
                    return Config(tuned.config)
        return None

    def store_config(
        self,
        target: Target,
        problem: Problem,
        solver_id: str,
        solver_version: int,
        config: Config,
        time_ms: float,
    ) -> None:
        """Record a tuned config in place of an older one of the same solver version."""
        new = TunedConfig(
            solver=solver_id,
            solver_version=solver_version,
            config=dict(config),
            time_ms=time_ms,
            created=int(time.time()),
        )

        def change(old: tuple[TunedConfig, ...] | None) -> tuple[TunedConfig, ...]:
            others = (
                tuned
                for tuned in old or ()
                if (tuned.solver, tuned.solver_version) != (solver_id, solver_version)
            )
            return (*others, new)

        self._user.update(CONFIG, database_key(target, problem), change)

    # -- quarantine -----------------------------------------------------------------------------

    def quarantined(self, target: Target, problem: Problem) -> tuple[QuarantineRecord, ...]:
        """Solvers that failed on the problem and device; the user's records hide shipped ones."""
        key = database_key(target, problem)
        found: dict[tuple[str, int], QuarantineRecord] = {}
        for records in (self._user.get(QUARANTINE, key), *self._shipped(QUARANTINE, key)):
            for record in records or ():
                found.setdefault((record.solver, record.solver_version), record)
        return tuple(found.values())

    def quarantine(self, target: Target, problem: Problem, record: QuarantineRecord) -> None:
        """Remember that a solver failed, in place of an older record of the same solver version."""

        def change(old: tuple[QuarantineRecord, ...] | None) -> tuple[QuarantineRecord, ...]:
            others = (
                other
                for other in old or ()
                if (other.solver, other.solver_version) != (record.solver, record.solver_version)
            )
            return (*others, record)

        self._user.update(QUARANTINE, database_key(target, problem), change)

    def release(self, target: Target, problem: Problem, solver_id: str) -> None:
        """Let a solver be tried again, in any version. A record that a package ships stays."""
        key = database_key(target, problem)

        def change(old: tuple[QuarantineRecord, ...] | None) -> tuple[QuarantineRecord, ...] | None:
            return tuple(record for record in old or () if record.solver != solver_id) or None

        def again(old: FindEntry | None) -> FindEntry | None:
            return None if old is None else reconsidered(old, solver_id)

        self._user.update(QUARANTINE, key, change)
        self._user.update(FIND, key, again)

    # -- the database itself --------------------------------------------------------------------

    def health(self) -> Sequence[str]:
        """One line for each reason why a layer is not fully used; looks at every layer first."""
        files = [file for file in (self._user.file, *self._system) if file is not None]
        for file in files:
            file.get(FIND.name, b"?")
        if self._user.file is not None:
            self._user.file.write(lambda environment, transaction: None)
        return [reason for file in files for reason in file.degradation.reasons]

    def close(self) -> None:
        """Let go of all files. A later use opens them again."""
        for file in (self._user.file, *self._system):
            if file is not None:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _entry(self, key: bytes) -> StoredEntry | None:
        user, shipped = self._user.stored(FIND, key), self._sealed(FIND, key)
        return None if user is None and not any(shipped) else self._as_one(key, user, shipped)

    def _united(
        self, key: bytes, user: Stored[FindEntry], shipped: tuple[bytes | None, ...]
    ) -> StoredEntry | None:
        """Decode what the layers hold and unite it.

        A function of nothing but the bytes, which every look reads anew, and of rosters, which
        never change: what was decoded before is right as long as the bytes are the same, whoever
        writes to the files. If a roster was damaged then, no solver counts as considered.
        """
        return layer_entries(
            self._user.value_of(FIND, key, user), self._decoded(FIND, key, shipped)
        )

    def _sealed(self, table: Table[T], key: bytes) -> tuple[bytes | None, ...]:
        """Values of the layers that packages ship, as they are stored."""
        stored = stored_key(key)
        return tuple([file.get(table.name, stored) for file in self._system])

    def _shipped(self, table: Table[T], key: bytes) -> list[T]:
        return self._decoded(table, key, self._sealed(table, key))

    def _decoded(self, table: Table[T], key: bytes, sealed: tuple[bytes | None, ...]) -> list[T]:
        values = [
            table.unpack(key, one, file.get)
            for file, one in zip(self._system, sealed, strict=True)
            if one is not None
        ]
        return [value for value in values if value is not None]


def _without_links(path: Path) -> Path:
    try:
        return path.resolve()
    except OSError:
        return path  # relative, and the current folder is gone
