"""`FindDb`: the database that finds read and write, in layers."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from convfind.device.target import Target
from convfind.finddb.database_file import DatabaseFile, file_in
from convfind.finddb.environment import Layout
from convfind.finddb.evidence import doubtful
from convfind.finddb.key import (
    SCHEMA,
    database_key,
    database_keys,
    end_of_identity,
    full_key,
    key_identity,
    stored_key,
)
from convfind.finddb.merge import (
    StoredEntry,
    entry_without,
    layer_entries,
    merge_entries,
    reconsidered,
)
from convfind.finddb.places import PlaceFinder, Places
from convfind.finddb.record import FindEntry, QuarantineRecord, TunedConfig
from convfind.finddb.roster import ROSTER
from convfind.finddb.table import CONFIG, FIND, QUARANTINE, Table
from convfind.finddb.user_layer import Stored, Update, UserLayer
from convfind.problem.contract import Problem
from convfind.solver.config import Config

T = TypeVar("T")

FILE_NAME = "finddb.lmdb"
LAYOUT = Layout(tables=(FIND.name, CONFIG.name, QUARANTINE.name, ROSTER), schema=SCHEMA)

_encoder = msgspec.msgpack.Encoder()
_NOTHING: tuple[bytes, None] = (b"", None)


class _Note(msgspec.Struct, frozen=True, array_like=True):
    """An entry that is to be stored, as a journal has it."""

    key: bytes
    entry: FindEntry
    former: FindEntry | None  # under a former identity of the device
    replace: bool
    tuned_again: bool

    def merged_with(self, old: FindEntry | None) -> FindEntry:
        """Return what is to be stored where something may be there."""
        return merge_entries(
            old or self.former, self.entry, replace=self.replace, tuned_again=self.tuned_again
        )


def _replayed(note: bytes) -> Update | None:
    """Return the change that a note is about; None where another version has written it."""
    try:
        found = msgspec.msgpack.decode(note, type=_Note)
    except msgspec.MsgspecError:
        return None
    return Update(FIND, found.key, found.merged_with)


class FindDb:
    """Records of one user over those that packages ship. Reading and writing never fail.

    A layer that has nothing under a device's identity answers with what it has under a former one.

    Where a database cannot be used, one `FindDbWarning` says so, `health` lists why, and what is
    stored stays in memory. Safe to share between threads, and to keep across a fork.
    """

    def __init__(self, user: DatabaseFile | None, system: Sequence[DatabaseFile]) -> None:
        self._user = UserLayer(user, _replayed)
        self._system = tuple(system)
        self._as_one = lru_cache(maxsize=256)(self._united)
        self._finder = PlaceFinder(self._user, self._system)

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
        return self._entry(self._finder.places(FIND, target, problem))

    def times(
        self, identity: str, problem: Problem, *, constant_weights: bool = False
    ) -> dict[str, float]:
        """The fastest time of each solver, by versioned id, on a device that may not be here.

        With constant weights or without. Milliseconds; empty where nothing is recorded. Times that
        are in doubt are left out.
        """
        stored = self._entry(self._finder.places_under(FIND, identity, problem))
        if stored is None:
            return {}
        found: dict[str, float] = {}
        doubted = doubtful(stored.entry)
        for record in stored.entry.records:  # fastest first
            name = f"{record.solver}@{record.solver_version}"
            if record.constant_weights == constant_weights and name not in doubted:
                found.setdefault(name, record.time_ms)
        return found

    def layers(
        self, target: Target, problem: Problem
    ) -> tuple[tuple[Path | None, FindEntry | None], ...]:
        """Return the entry of each layer by itself: the user's, then the shipped, topmost first.

        With the file of each; None stands for a user's layer that is only in memory.
        """
        places = self._finder.places(FIND, target, problem)
        user = self._user.file
        found = [(None if user is None else user.path, self._users(FIND, places.user))]
        for file, (key, sealed) in zip(self._system, self._sealed(FIND, places), strict=True):
            found.append((file.path, FIND.unpack(key, sealed, file.get)))
        return tuple(found)

    def own(
        self, target: Target, problem: Problem
    ) -> tuple[FindEntry | None, tuple[TunedConfig, ...], tuple[QuarantineRecord, ...]]:
        """Records, tuned configs and quarantine that the user's layer by itself has."""
        keys = database_keys(target, problem)
        return (
            self._users(FIND, keys),
            self._users(CONFIG, keys) or (),
            self._users(QUARANTINE, keys) or (),
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
        for ``replace`` and ``tuned_again``. Where a disk is slow, nobody waits for it: a process
        that is killed leaves a journal to whoever opens the database next.
        """
        key, *former_keys = database_keys(target, problem)
        former = self._users(FIND, former_keys)
        note = _Note(key, entry, former, replace, tuned_again)
        self._user.store(FIND, key, note.merged_with, _encoder.encode(note))

    def remove(
        self, target: Target, problem: Problem, solvers: Container[str] | None = None
    ) -> None:
        """Forget the user's records and tuned configs of a problem. Shipped entries stay.

        Args:
            target: the device.
            problem: the problem.
            solvers: ids of the solvers to forget; None forgets all of them.
        """

        def without(old: FindEntry | None) -> FindEntry | None:
            return None if old is None or solvers is None else entry_without(old, solvers)

        def kept(old: tuple[TunedConfig, ...] | None) -> tuple[TunedConfig, ...] | None:
            if solvers is None:
                return None
            return tuple(tuned for tuned in old or () if tuned.solver not in solvers) or None

        for key in database_keys(target, problem):
            self._user.update(FIND, key, without)
            self._user.update(CONFIG, key, kept)

    def entries(self, prefix: str = "") -> Iterator[tuple[str, FindEntry]]:
        """Keys and entries of the user's database whose key starts so."""
        for key, entry in self._user.items(FIND, prefix.encode()):
            yield key.decode(), entry

    def devices(self) -> tuple[str, ...]:
        """Identities of all devices with records in any layer, sorted."""
        found = {key_identity(key) for key in self._user.kept_keys(FIND)}
        for file in (self._user.file, *self._system):
            start = b""
            while file is not None and (items := file.scan(FIND.name, start, 1)):
                identity = key_identity(full_key(*items[0]))
                found.add(identity)
                start = max(end_of_identity(identity), items[0][0] + b"\0")
        return tuple(sorted(found))

    # -- tuned configs --------------------------------------------------------------------------

    def config(
        self, target: Target, problem: Problem, solver_id: str, solver_version: int
    ) -> Config | None:
        """The tuned config of that very solver version, the user's before a shipped one."""
        for configs in self._each(CONFIG, self._finder.places(CONFIG, target, problem)):
            for tuned in configs:
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
        found: dict[tuple[str, int], QuarantineRecord] = {}
        for records in self._each(QUARANTINE, self._finder.places(QUARANTINE, target, problem)):
            for record in records:
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

        def change(old: tuple[QuarantineRecord, ...] | None) -> tuple[QuarantineRecord, ...] | None:
            return tuple(record for record in old or () if record.solver != solver_id) or None

        def again(old: FindEntry | None) -> FindEntry | None:
            return None if old is None else reconsidered(old, solver_id)

        for key in database_keys(target, problem):
            self._user.update(QUARANTINE, key, change)
            self._user.update(FIND, key, again)

    # -- the database itself --------------------------------------------------------------------

    def health(self) -> Sequence[str]:
        """One line for each reason why a layer is not fully used; looks at every layer first."""
        files = [file for file in (self._user.file, *self._system) if file is not None]
        self._user.flush()
        for file in files:
            file.get(FIND.name, b"?")
        if self._user.file is not None:
            self._user.file.write(lambda environment, transaction: None)
        return [reason for file in files for reason in file.degradation.reasons]

    def close(self) -> None:
        """Let go of all files. A later use opens them again."""
        self._user.close()
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

    def _entry(self, places: Places) -> StoredEntry | None:
        user, shipped = self._stored(FIND, places.user), self._sealed(FIND, places)
        return self._as_one(user, shipped) if user[1] or any([one[1] for one in shipped]) else None

    def _united(
        self,
        user: tuple[bytes, Stored[FindEntry]],
        shipped: tuple[tuple[bytes, bytes | None], ...],
    ) -> StoredEntry | None:
        """Decode what the layers hold, each after its key, and unite it.

        A function of nothing but the bytes, which every look reads anew, and of rosters, which
        never change: what was decoded before is right as long as the bytes are the same, whoever
        writes to the files. If a roster was damaged then, no solver counts as considered.
        """
        values = [
            FIND.unpack(key, sealed, file.get)
            for file, (key, sealed) in zip(self._system, shipped, strict=True)
        ]
        return layer_entries(
            self._user.value_of(FIND, *user), [value for value in values if value is not None]
        )

    def _users(self, table: Table[T], keys: Sequence[bytes]) -> T | None:
        """Read the user's value under the first of the keys that has one."""
        return self._user.value_of(table, *self._stored(table, keys)) if keys else None

    def _stored(self, table: Table[T], keys: Sequence[bytes]) -> tuple[bytes, Stored[T]]:
        """Read the user's value as it is stored, after the first of the keys that has one."""
        for key in keys:
            stored = self._user.stored(table, key)
            if stored is not None:
                return key, stored
        return keys[0], None

    def _sealed(self, table: Table[T], places: Places) -> tuple[tuple[bytes, bytes | None], ...]:
        """Read the same of each of the layers that packages ship."""
        name, found = table.name, []
        for file, keys in zip(self._system, places.shipped, strict=True):
            pair: tuple[bytes, bytes | None] = _NOTHING
            for key in keys:
                sealed = file.get(name, stored_key(key))
                if sealed is not None:
                    pair = key, sealed
                    break
            found.append(pair)
        return tuple(found)

    def _each(self, table: Table[T], places: Places) -> Iterator[T]:
        """Yield what the layers hold under any of the keys, the user's first."""
        for key in places.user:
            own = self._user.get(table, key)
            if own is not None:
                yield own
        for file, keys in zip(self._system, places.shipped, strict=True):
            for key in keys:
                value = table.unpack(key, file.get(table.name, stored_key(key)), file.get)
                if value is not None:
                    yield value


def _without_links(path: Path) -> Path:
    try:
        return path.resolve()
    except OSError:
        return path  # relative, and the current folder is gone
