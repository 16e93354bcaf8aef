"""`BinaryStore`: compiled kernels on disk, checked when read and bounded in size."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from convfind.finddb.behind import Behind
from convfind.finddb.change import Change
from convfind.finddb.database_file import DatabaseFile, file_in
from convfind.finddb.environment import Environment, Layout, Transaction
from convfind.finddb.fork_safety import fork_safe_lock
from convfind.finddb.kernel_pack import KERNEL, KERNELS
from convfind.finddb.key import seal, stored_key, unseal

FILE_NAME = "binaries.lmdb"

# A value in "binary" is its place in the order of arrival, then the sealed binary. "order" maps
# places to the size of the value, then its stored key. "total" is the sum of all sizes in "order".
_BINARY, _ORDER, _TOTAL = "binary", "order", "total"
_LAYOUT = Layout(tables=(_BINARY, _ORDER, _TOTAL), schema=1)
_PLACE = 8
_MEMORY_LIMIT = 256 << 20
_SOON = 1.0  # seconds

#: Binaries by key, sealed and as they are.
_Sealed: TypeAlias = dict[bytes, tuple[bytes, bytes]]

_keeping = fork_safe_lock()  # guards what stores keep in memory


class BinaryStore:
    """Binaries by text key. Beyond the limit the oldest ones are evicted. Nothing here fails.

    Below them lie packs of kernels, which are only read.
    """

    def __init__(
        self, file: DatabaseFile | None, limit: int, packs: Sequence[DatabaseFile] = ()
    ) -> None:
        self._file = file
        self._packs = packs
        self._limit = limit
        self._kept: dict[bytes, bytes] = {}  # what is not on disk, or not yet, oldest first
        self._thread = Behind(self._store_behind)

    @classmethod
    def open(
        cls,
        path: Path | None,
        packs: Sequence[Path] = (),
        *,
        limit: int = 2 << 30,
        allow_network: bool = False,
    ) -> BinaryStore:
        """Prepare a store; no file is touched before its first use.

        Args:
            path: folder of the store (or the file itself, ``*.lmdb``); None keeps it in memory.
            packs: packs of kernels, for binaries that the store lacks; earlier ones win.
            limit: bytes of all binaries together, but for those of packs.
            allow_network: use the file also where it lies on a network file system.
        """
        file = None
        if path is not None:
            file = DatabaseFile(
                file_in(path, FILE_NAME), _LAYOUT, writable=True, allow_network=allow_network
            )
        return cls(file, limit, [DatabaseFile(one, KERNELS, writable=False) for one in packs])

    def get(self, key: str) -> bytes | None:
        """Return a binary, None where it is missing. A damaged one is removed."""
        full = key.encode()
        kept = self._kept.get(full)
        if kept is not None:
            return kept
        stored = stored_key(full)
        value = None if self._file is None else self._file.get(_BINARY, stored)
        if value is not None:
            binary = unseal(full, value[_PLACE:])
            if binary is not None:
                return binary
            self._remove_damaged(stored, value)
        shipped = (pack.get(KERNEL, stored) for pack in self._packs)
        opened = (unseal(full, sealed) for sealed in shipped if sealed is not None)
        return next((binary for binary in opened if binary is not None), None)

    def put(self, key: str, binary: bytes) -> None:
        """Store a binary in place of an older one of that key; one over the limit is not stored."""
        self.put_all(((key, binary),))

    def put_all(self, binaries: Iterable[tuple[str, bytes]]) -> None:
        """Store several binaries as `put` does one, in a single transaction.

        Where a disk is slow, nobody waits for it: a process that is killed may lose the last ones.
        """
        sealed = {}
        for key, binary in binaries:
            full = key.encode()
            one = seal(full, binary)
            if len(one) + _PLACE <= self._limit:
                sealed[full] = one, binary
        if sealed and self._file and self._thread.takes(self._file.change_seconds):
            self._keep({full: binary for full, (_, binary) in sealed.items()})
            self._thread.put(sealed)
        elif sealed:
            self._store(sealed)

    def _store_behind(self, waiting: Sequence[_Sealed]) -> None:
        together: _Sealed = {}
        for sealed in waiting:
            together |= sealed
        self._store(together)

    def _store(self, sealed: _Sealed) -> None:
        def insert(environment: Environment, transaction: Transaction) -> None:
            for full, (one, _) in sealed.items():
                self._insert(environment, transaction, stored_key(full), one)

        is_stored = self._file is not None and self._file.write(insert)
        with _keeping:
            for full, (_, binary) in sealed.items():
                if self._kept.get(full, binary) == binary:  # else a later one waits
                    self._kept.pop(full, None)
        if not is_stored:
            self._keep({full: binary for full, (_, binary) in sealed.items()})

    def _keep(self, binaries: dict[bytes, bytes]) -> None:
        with _keeping:
            for full, binary in binaries.items():
                self._kept.pop(full, None)
                self._kept[full] = binary
            while sum(map(len, self._kept.values())) > min(self._limit, _MEMORY_LIMIT):
                self._kept.pop(next(iter(self._kept)))

    def health(self) -> Sequence[str]:
        """One line for each reason why the file is not fully used; looks at it first."""
        self._thread.flush()
        reasons: list[str] = []
        for file in self._files():
            file.get(_BINARY, b"-")
            reasons += file.degradation.reasons
        return reasons

    def close(self) -> None:
        """Let go of the file. A later use opens it again."""
        self._thread.flush()
        for file in self._files():
            file.close()

    def _files(self) -> Sequence[DatabaseFile]:
        return self._packs if self._file is None else (self._file, *self._packs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _insert(
        self, environment: Environment, transaction: Transaction, stored: bytes, sealed: bytes
    ) -> None:
        binaries, order = environment.table(_BINARY), environment.table(_ORDER)
        totals = environment.table(_TOTAL)
        if (transaction.get(stored, db=binaries) or b"")[_PLACE:] == sealed:
            return
        size = len(sealed) + _PLACE
        total = int.from_bytes(transaction.get(b"bytes", b"", db=totals), "big") + size
        cursor = transaction.cursor(order)
        newest = cursor.key() if cursor.last() else b""
        place = (int.from_bytes(newest, "big") + 1).to_bytes(_PLACE, "big")
        while total > self._limit and cursor.first():
            total -= self._evict(transaction, environment, cursor.key(), cursor.value())
            cursor.delete()
        values = Change(environment.table, transaction)
        values.put(_BINARY, stored, place + sealed)
        values.put(_ORDER, place, size.to_bytes(_PLACE, "big") + stored)
        values.put(_TOTAL, b"bytes", total.to_bytes(_PLACE, "big"))

    def _evict(
        self, transaction: Transaction, environment: Environment, place: bytes, entry: bytes
    ) -> int:
        """Remove the binary that arrived at a place, unless another has replaced it; its size."""
        stored, binaries = entry[_PLACE:], environment.table(_BINARY)
        value = transaction.get(stored, db=binaries)
        if value is not None and value[:_PLACE] == place:
            transaction.delete(stored, db=binaries)
        return int.from_bytes(entry[:_PLACE], "big")

    def _remove_damaged(self, stored: bytes, value: bytes) -> None:
        def work(environment: Environment, transaction: Transaction) -> None:
            binaries = environment.table(_BINARY)
            if transaction.get(stored, db=binaries) == value:  # else someone has replaced it
                transaction.delete(stored, db=binaries)

        if self._file is not None:
            self._file.write(work)


class Gathered:
    """Binaries on their way into a store, in one transaction for all that come within a second.

    A process that is killed loses those of its last second. Used in a ``with`` statement.
    """

    def __init__(self, store: BinaryStore) -> None:
        self._store = store
        self._waiting: list[tuple[str, bytes]] = []
        self._stored = time.monotonic()

    def put(self, key: str, binary: bytes) -> None:
        """Store a binary soon."""
        self._waiting.append((key, binary))
        if time.monotonic() > self._stored + _SOON:
            self._store_waiting()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._store_waiting()

    def _store_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._store.put_all(waiting)
        self._stored = time.monotonic()
