"""`UserLayer`: the user's own records, on disk where possible and in memory where not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from convfind.finddb.change import Change
from convfind.finddb.database_file import DatabaseFile
from convfind.finddb.environment import Environment, Transaction
from convfind.finddb.fork_safety import fork_safe_lock
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


class UserLayer:
    """Tables of values by key. A change that does not reach the disk is kept in memory instead."""

    def __init__(self, file: DatabaseFile | None) -> None:
        self.file = file
        self._kept: dict[tuple[str, bytes], Kept[Any]] = {}

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
        if self._kept:
            kept = self._kept.get((table.name, key))
            if kept is not None:
                return kept
        return None if self.file is None else self.file.get(table.name, stored_key(key))

    def update(self, table: Table[T], key: bytes, change: Callable[[T | None], T | None]) -> None:
        """Replace a value by what ``change`` makes of it, None to remove it; may call it again."""
        place, stored = (table.name, key), stored_key(key)
        made: list[bytes | None] = [None, None]  # what was there, and what has taken its place

        def work(environment: Environment, transaction: Transaction) -> None:
            values = Change(environment.table, transaction)
            kept = self._kept.get(place)
            old = values.get(table.name, stored)
            new = change(kept.value if kept else table.unpack(key, old, values.get))
            if new is None:
                values.delete(table.name, stored)
                made[:] = old, None
            else:
                sealed = table.pack(key, new, values)
                values.put(table.name, stored, sealed)
                made[:] = old, sealed

        before = self.stored(table, key)  # reading is where damage shows without harm
        if self.file is not None and self.file.write(work):
            old, new = made
            # Damage that lists pages in use as free shows when they have been written over.
            if self.file.get(table.name, stored) not in {old, None} - {new}:
                self._kept.pop(place, None)
                return
        on_disk = self.value_of(table, key, before)
        with _keeping:
            kept = self._kept.get(place)
            self._kept[place] = Kept(change(kept.value if kept else on_disk))

    def items(self, table: Table[T], prefix: bytes) -> Iterator[tuple[bytes, T]]:
        """Every readable value whose full key starts so; those in memory only come last."""
        with _keeping:
            kept = {key: value for (name, key), value in self._kept.items() if name == table.name}
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
                for (name, key), kept in self._kept.items()
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
