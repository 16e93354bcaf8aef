"""Database files for tools: unlike in a find, every fault of a file is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import lmdb

from convfind.errors import FindDbCorruptError, FindDbError, FindDbVersionError
from convfind.finddb.change import Change
from convfind.finddb.database import FILE_NAME
from convfind.finddb.database import LAYOUT as CORE_LAYOUT
from convfind.finddb.database_file import file_in, make_private_folder
from convfind.finddb.environment import (
    Environment,
    Layout,
    Transaction,
    acquire,
    open_growing,
    release,
)
from convfind.finddb.file_check import fault, folder_lock
from convfind.finddb.kernel_pack import KERNEL
from convfind.finddb.key import full_key, stored_key, stored_prefix
from convfind.finddb.network_mounts import network_file_system
from convfind.finddb.pack import is_pack
from convfind.finddb.plain_errors import plain_errors

Result = TypeVar("Result")

#: The sub-databases of MIOpen's find records and tuned configs; core neither reads nor writes them.
FOREIGN, FOREIGN_CONFIG = "foreign", "foreign-config"
LAYOUT = Layout(tables=(*CORE_LAYOUT.tables, FOREIGN, FOREIGN_CONFIG), schema=CORE_LAYOUT.schema)

_READ = (*LAYOUT.tables, KERNEL)
_META, _SCHEMA = b"meta", b"schema"
_MAP_SIZE = 256 << 20


def database_path(path: Path) -> Path:
    """Return the database file of a path, which is a folder or the file itself.

    Raises:
        FindDbError: it is neither, or the file is missing or damaged.
    """
    file = file_in(path, FILE_NAME)
    if not file.is_file():
        if path.is_dir():
            msg = f"{path} holds no find database ({FILE_NAME}); name its folder or file"
        elif path.exists() and path.is_file():
            msg = (
                f"{path} is no find database: those end in .lmdb (`convfind db import` reads text)"
            )
        else:
            msg = f"{file} does not exist"
        raise FindDbError(msg)
    if not file.stat().st_size:  # LMDB speaks of a bad descriptor
        msg = f"{file} is empty: nothing was ever written to it"
        raise FindDbError(msg)
    _check(file)
    return file


class Snapshot:
    """A consistent, read-only view of a database file. A context manager."""

    def __init__(self, path: Path) -> None:
        self.path = database_path(path)
        with plain_errors(self.path):
            self._lmdb = _open_for_reading(self.path)
            try:
                self._tables, self._transaction = self._opened()
            except BaseException:
                self._lmdb.close()
                raise

    def count(self, table: str) -> int:
        """Number of values in a sub-database."""
        handle = self._tables.get(table)
        return 0 if handle is None else int(self._transaction.stat(handle)["entries"])

    def get(self, table: str, key: bytes) -> bytes | None:
        """Read the sealed value of a full key."""
        handle = self._tables.get(table)
        with plain_errors(self.path):
            return None if handle is None else self._transaction.get(stored_key(key), db=handle)

    def items(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield full keys with a prefix and their sealed values, in order of stored keys."""
        start = stored_prefix(prefix)
        for key, sealed in self.items_from(table, start):
            if not key.startswith(start):
                return
            if key.startswith(prefix):
                yield key, sealed

    def items_from(self, table: str, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Full keys and sealed values from a stored key on."""
        handle = self._tables.get(table)
        if handle is None:
            return
        with plain_errors(self.path):
            cursor = self._transaction.cursor(handle)
            for stored, sealed in cursor.iternext() if cursor.set_range(start) else ():
                yield full_key(stored, sealed), sealed

    def copy_to(self, output: Path) -> None:
        """Write a copy without free space into a file that does not exist yet."""
        with plain_errors(output), output.open("xb") as file:
            try:
                self._lmdb.copyfd(file.fileno(), compact=True)
            except BaseException:
                output.unlink()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._transaction.abort()
        self._lmdb.close()

    def _opened(self) -> tuple[dict[str, lmdb._Database], lmdb.Transaction[bytes]]:
        while True:
            try:
                return self._open_tables(), self._lmdb.begin()
            except lmdb.MapResizedError:  # another process has made the file grow since
                self._lmdb.set_mapsize(0)

    def _open_tables(self) -> dict[str, lmdb._Database]:
        tables: dict[str, lmdb._Database] = {}
        for name in _READ:
            try:
                tables[name] = self._lmdb.open_db(name.encode(), create=False)
            except lmdb.NotFoundError:
                continue
        try:
            meta = self._lmdb.open_db(_META, create=False)
        except lmdb.NotFoundError:
            msg = f"{self.path} is an LMDB file, but no find database"
            raise FindDbError(msg) from None
        with self._lmdb.begin(meta) as transaction:
            schema = transaction.get(_SCHEMA, b"?")
        if not schema.isdigit() or int(schema) > LAYOUT.schema:
            given = schema.decode(errors="replace")
            msg = f"{self.path} has schema {given}, newer than {LAYOUT.schema}: upgrade convfind"
            raise FindDbVersionError(msg)
        return tables


class Writer:
    """A database file open for changes, created if missing. A context manager."""

    def __init__(self, path: Path, room: int = 0) -> None:
        """Open a file; ``room`` is how many bytes are about to be added, roughly."""
        self.path = file_in(path, FILE_NAME)
        if path.is_file() and path != self.path:
            msg = f"{path} is a file and no find database: those end in .lmdb"
            raise FindDbError(msg)
        if is_pack(self.path):
            msg = f"{self.path} is a pack, which is read-only; `convfind db merge` copies it"
            raise FindDbError(msg)
        kind = network_file_system(self.path)
        if kind is not None:
            msg = f"{self.path} is on a network file system ({kind}): write to a local folder"
            raise FindDbError(msg)
        with plain_errors(self.path):
            make_private_folder(self.path.parent)
            with folder_lock(self.path.parent):
                _check(self.path)
                size = self.path.stat().st_size if self.path.exists() else 0
                self._environment: Environment = acquire(
                    self.path, LAYOUT, writable=True, map_size=max(_MAP_SIZE, 2 * size + room)
                )
        if not self._environment.writable or self._environment.table(FOREIGN) is None:
            release(self._environment)
            msg = f"{self.path} is open in this process already, in a way that forbids changes"
            raise FindDbError(msg)

    def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run a change in one transaction, all or nothing; ``work`` may run again."""
        with plain_errors(self.path):
            return self._environment.write(work)

    def change(self, work: Callable[[Change], Result]) -> Result:
        """Run work on sealed values in a transaction, as `write`."""
        return self.write(lambda transaction: work(Change(self.table, transaction)))

    def get(self, table: str, key: bytes) -> bytes | None:
        """Read the sealed value of a full key."""
        with plain_errors(self.path):
            return self._environment.get(table, stored_key(key))

    def trim(self) -> None:
        """Let go of the pages that changes so far have touched."""
        with plain_errors(self.path):
            self._environment.trim()

    def table(self, name: str) -> lmdb._Database:
        """Handle of a sub-database."""
        handle = self._environment.table(name)
        if handle is None:
            msg = f"{self.path} has no sub-database {name!r}"
            raise FindDbError(msg)
        return handle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        release(self._environment)


def _open_for_reading(path: Path) -> lmdb.Environment:
    """Open with a slot in the reader table, or without one if the folder is read-only."""
    tables = len(_READ) + 1
    if is_pack(path):  # nobody writes to one, and no lock file is to be left beside it
        return open_growing(path, readonly=True, max_dbs=tables, lock=False)
    try:
        return open_growing(path, readonly=True, max_dbs=tables, mode=0o600)
    except lmdb.Error:
        # Also where the folder is read-only. Faults of the file itself are raised again.
        return open_growing(path, readonly=True, max_dbs=tables, lock=False)


def _check(file: Path) -> None:
    why = fault(file)
    if why is not None:
        msg = f"{file}: {why}; `convfind db repair` saves what can be read"
        raise FindDbCorruptError(msg)
