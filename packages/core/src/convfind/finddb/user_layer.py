"""`UserLayer`: the user's own records, on disk where possible and in memory where not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from convfind.finddb.behind import Behind
from convfind.finddb.change import Change
from convfind.finddb.database_file import DatabaseFile
from convfind.finddb.environment import Environment, Transaction
from convfind.finddb.fork_safety import fork_safe_lock
from convfind.finddb.journal import Journal, adopt
from convfind.finddb.key import full_key, stored_key, stored_prefix
from convfind.finddb.table import Table

T = TypeVar("T")

_BATCH = 1000  # values read in one transaction: a long one would keep the file from reusing space

_keeping = fork_safe_lock()  # guards what layers keep in memory


class Kept(Generic[T]):
    """A value in memory that stands for the one on disk; None for a removed one. Never changed."""

    __slots__ = ("value",)

    def __init__(self, value: T | None) -> None:
        self.value = value


#: A value as a layer has it: sealed bytes of a file, or what memory keeps in their place.
Stored: TypeAlias = bytes | Kept[T] | None


class Update(NamedTuple):
    """A value to be replaced by what ``change`` makes of it, None to remove it."""

    table: Table[Any]
    key: bytes
    change: Callable[[Any], Any]

    @property
    def place(self) -> tuple[str, bytes]:
        """Where the value is, in memory."""
        return self.table.name, self.key


#: The layer of this process that stores behind its callers, by file.
_behind: dict[Path, UserLayer] = {}


class UserLayer:
    """Tables of values by key. A change that does not reach the disk is kept in memory instead.

    Where a disk is slow, what `store` changes is in memory and in a journal until a thread has
    stored it.
    """

    def __init__(
        self,
        file: DatabaseFile | None,
        replay: Callable[[bytes], Update | None] = lambda note: None,
    ) -> None:
        """``replay`` says what the note of a process that was killed stood for."""
        self.file = file
        self._replay = replay
        self._kept: dict[tuple[str, bytes], Kept[Any]] = {}
        self._soon: dict[tuple[str, bytes], Kept[Any]] = {}  # what the thread has not stored
        self._thread = Behind(self._store_behind, self._forget_soon)
        self._journal = None if file is None else Journal(file.path)
        self._is_complete = file is None  # with what others have left

    def get(self, table: Table[T], key: bytes) -> T | None:
        """Read a value; None where there is none or it is damaged."""
        return self.value_of(table, key, self.stored(table, key))

    def value_of(self, table: Table[T], key: bytes, stored: Stored[T]) -> T | None:
        """Decode a value that was read; None where there was none or it is damaged."""
        if isinstance(stored, Kept):
            return stored.value
        return None if self.file is None else table.unpack(key, stored, self.file.get)

    def stored(self, table: Table[T], key: bytes) -> Stored[T]:
        """Read a value as it is stored, without decoding it."""
        if _behind or not self._is_complete:
            self._catch_up()
        if self._soon:
            kept = self._soon.get((table.name, key))
            if kept is not None:
                return kept
        return self._read(table, key)

    def update(self, table: Table[T], key: bytes, change: Callable[[T | None], T | None]) -> None:
        """Replace a value by what ``change`` makes of it, None to remove it; may call it again."""
        self.flush()
        self._catch_up()
        update = Update(table, key, change)
        self._update([update])
        with _keeping:
            waiting = self._soon.get(update.place)  # of another thread, which began before
            if waiting is not None:
                self._soon[update.place] = Kept(change(waiting.value))

    def store(
        self, table: Table[T], key: bytes, change: Callable[[T | None], T | None], note: bytes
    ) -> None:
        """Do the same, and wait for no slow disk: the ``note`` is what `replay` needs for it."""
        file, journal = self.file, self._journal
        if file is None or journal is None or not self._thread.takes(file.change_seconds):
            self.update(table, key, change)
            return
        self._catch_up()
        new = Update(table, key, change)
        with _keeping:
            is_noted = journal.append(note)
            if is_noted:
                there = self._soon.get(new.place) or self._read(table, key)
                self._soon[new.place] = Kept(change(self.value_of(table, key, there)))
                _behind[file.path] = self
                self._thread.put(new)
        if not is_noted:
            self.update(table, key, change)

    def flush(self) -> None:
        """Wait until all that was stored is on disk."""
        if self._soon:
            self._thread.flush()

    def close(self) -> None:
        """Wait for that, and remove the journal."""
        self.flush()
        if self._journal is not None:
            self._journal.close()

    def _store_behind(self, updates: Sequence[Update]) -> None:
        self._update(updates)
        with _keeping:
            if self._thread.is_waited_for or self.file is None or self._journal is None:
                return
            self._soon.clear()
            self._journal.clear()
            if _behind.get(self.file.path) is self:
                del _behind[self.file.path]

    def _forget_soon(self) -> None:
        """Leave what is not stored to the parent of this process."""
        self._soon.clear()
        _behind.clear()
        if self._journal is not None:
            self._journal.forget()

    def _catch_up(self) -> None:
        """Have what another layer of this process stores, and what killed ones have left."""
        if self.file is None:
            return
        other = _behind.get(self.file.path)
        if other is not None and other is not self:
            other.flush()
        if not self._is_complete:
            self._is_complete = True
            adopt(self.file.path, self._make_up)

    def _make_up(self, note: bytes) -> bool:
        """Store what a note of another process stood for; False where it is in memory only."""
        update = self._replay(note)
        return update is None or self._update([update])

    def _update(self, updates: Sequence[Update]) -> bool:
        """Make changes in one transaction; False where they are kept in memory."""
        old: dict[tuple[str, bytes], bytes | None] = {}  # what was there, ...
        new: dict[tuple[str, bytes], bytes | None] = {}  # ... and what has taken its place

        def work(environment: Environment, transaction: Transaction) -> None:
            old.clear()
            values = Change(environment.table, transaction)
            for table, key, change in updates:
                place, stored = (table.name, key), stored_key(key)
                before = values.get(table.name, stored)
                kept = None if place in old else self._kept.get(place)
                value = change(kept.value if kept else table.unpack(key, before, values.get))
                old.setdefault(place, before)
                if value is None:
                    values.delete(table.name, stored)
                    new[place] = None
                else:
                    new[place] = sealed = table.pack(key, value, values)
                    values.put(table.name, stored, sealed)

        # Reading is where damage shows without harm.
        there = {update.place: self._read(update.table, update.key) for update in updates}
        is_written = self.file is not None and self.file.write(work)
        lost = [one for one in updates if not (is_written and self._has(one, old, new))]
        with _keeping:
            for one in updates:
                if one not in lost:
                    self._kept.pop(one.place, None)
            for table, key, change in lost:
                kept = self._kept.get((table.name, key))
                before = self.value_of(table, key, there[table.name, key])
                self._kept[table.name, key] = Kept(change(kept.value if kept else before))
        return not lost

    def _has(
        self,
        update: Update,
        old: Mapping[tuple[str, bytes], bytes | None],
        new: Mapping[tuple[str, bytes], bytes | None],
    ) -> bool:
        """Return whether a value that was written is there.

        Damage that lists pages in use as free shows when they have been written over.
        """
        assert self.file is not None
        now = self.file.get(update.table.name, stored_key(update.key))
        return now not in {old[update.place], None} - {new[update.place]}

    def _read(self, table: Table[T], key: bytes) -> Stored[T]:
        """Read a value from the file, or what memory keeps in its place."""
        kept = self._kept.get((table.name, key))
        if kept is not None or self.file is None:
            return kept
        return self.file.get(table.name, stored_key(key))

    def items(self, table: Table[T], prefix: bytes) -> Iterator[tuple[bytes, T]]:
        """Every readable value whose full key starts so; those in memory only come last."""
        self._catch_up()
        with _keeping:
            both = {**self._kept, **self._soon}
            kept = {key: value for (name, key), value in both.items() if name == table.name}
        for key, sealed in self._stored(table.name, stored_prefix(prefix)):
            if not key.startswith(prefix):
                continue
            shadow = kept.pop(key, None)
            value = self.value_of(table, key, shadow or sealed)
            if value is not None:
                yield key, value
        for key, shadow in sorted(kept.items(), key=lambda item: item[0]):
            if key.startswith(prefix) and shadow.value is not None:
                yield key, shadow.value

    def kept_keys(self, table: Table[Any]) -> tuple[bytes, ...]:
        """Keys of the values that memory keeps."""
        with _keeping:
            return tuple(
                key
                for (name, key), kept in {**self._kept, **self._soon}.items()
                if name == table.name and kept.value is not None
            )

    def _stored(self, name: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        if self.file is None:
            return
        start = prefix
        while batch := self.file.scan(name, start, _BATCH):
            for stored, sealed in batch:
                if not stored.startswith(prefix):
                    return
                yield full_key(stored, sealed), sealed
            start = batch[-1][0] + b"\0"  # the next possible key
