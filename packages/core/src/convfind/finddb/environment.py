"""`Environment`: one open LMDB file of this process, safe across threads, forks and growth.

LMDB leaves three things to its users, and all three are here. A file may be open only once in a
process, so that environments are shared and counted. The map must not be resized, whether this or
another process made the file grow, while a transaction of this process is active. And an open
environment must not cross a fork: the child closes its inherited copy and opens the file anew.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import lmdb

from convfind.errors import FindDbVersionError
from convfind.finddb.file_check import file_inode, file_size, reserve_lock_file
from convfind.finddb.use_marker import UseMarker

Result = TypeVar("Result")
Transaction: TypeAlias = "lmdb.Transaction[bytes]"

#: Errors that LMDB raises when it meets a page that cannot be.
CORRUPT = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.InvalidError,
    lmdb.BadTxnError,
)

_META, _SCHEMA = "meta", b"schema"
_MAX_READERS = 500  # one for each process: reads of a process take turns
_LOCK_FILE_SIZE = 32768  # room for that many readers
_USUAL = 1 << 16  # bytes: a value of more is not believed at once
_MOST_OPENINGS = 100  # a damaged file may say that it has grown for ever


class EnvironmentClosed(Exception):
    """The environment was closed under its user, by a fork or because the file was damaged."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of the sub-databases of a file, and the version of what they hold."""

    tables: tuple[str, ...]
    schema: int


def open_growing(path: Path, **options: Any) -> lmdb.Environment:
    """Open a file that other processes may make grow meanwhile, with options of `lmdb.open`.

    LMDB maps a file and then begins a transaction, which fails where the file has outgrown the map
    in between. Raises `lmdb.Error`.
    """
    name = os.fsencode(path)  # need not be UTF-8
    for _ in range(_MOST_OPENINGS - 1):
        with suppress(lmdb.MapResizedError):
            return lmdb.open(name, subdir=False, **options)
    return lmdb.open(name, subdir=False, **options)


class Environment:
    """An LMDB file, opened once in this process; from `acquire`, returned with `release`.

    Methods raise `lmdb.Error`, and `EnvironmentClosed` where the file has to be opened again. One
    that is ``shared`` and not writable reads beside the writers of other processes, and waits for
    none of them; a read-only one that is not shared is for files that nobody writes to.
    """

    def __init__(
        self, path: Path, layout: Layout, *, writable: bool, map_size: int, shared: bool = True
    ) -> None:
        self.path = path
        self.writable = writable
        self.shared = writable or shared
        self.users = 0
        self._writing = threading.Lock()  # one writer of this process at a time
        self._mapping = threading.Lock()  # held by readers, and while the map moves
        if self.shared:
            reserve_lock_file(path, _LOCK_FILE_SIZE)
        self._lmdb: lmdb.Environment | None = open_growing(
            path,
            map_size=map_size,
            mode=0o600,
            max_dbs=len(layout.tables) + 1,
            max_readers=_MAX_READERS,
            readonly=not writable,
            lock=self.shared,
            # Data reach the disk before the page that makes them valid, but that page may wait for
            # the next commit: a power cut can take the last stores, never the database.
            metasync=False,
            lib_version=0,  # the format of new files: LMDB 0.9
        )
        self.inode = file_inode(path)
        self._marker = UseMarker(path) if self.shared else None
        try:
            if self.shared:
                self._lmdb.reader_check()  # free the slots of processes that died while reading
            self._tables = self._open_tables(layout)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """True where the file has to be opened again."""
        return self._lmdb is None

    def get(self, table: str, key: bytes) -> bytes | None:
        """Read one value.

        LMDB believes what a page says of the size of a value, and copying what lies beyond the end
        of the file kills the process; so that is looked at before.
        """
        with self._mapping:
            if self._lmdb is None:
                raise EnvironmentClosed
            handle = self._tables.get(table)
            if handle is None:
                return None
            try:
                with self._lmdb.begin(handle, None, False, True) as transaction:  # buffers
                    value = transaction.get(key)
                    if value is None:
                        return None
                    if len(value) > _USUAL and len(value) > file_size(self.path):
                        msg = f"a value of {len(value)} bytes in a smaller file"
                        raise lmdb.CorruptedError(msg)
                    return bytes(value)
            except (lmdb.MapResizedError, lmdb.ReadersFullError):
                pass  # the general way below repairs both
        return self.read(lambda transaction: transaction.get(key, db=handle))

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run some reading in one short transaction. ``work`` may run again."""
        swept = False
        while True:
            try:
                with self._mapping, self._open().begin() as transaction:
                    return work(transaction)
            except lmdb.MapResizedError:
                with self._writing:
                    self._remap(0)
            except lmdb.ReadersFullError:
                if swept or not self.shared:
                    raise
                self._open().reader_check()
                swept = True

    def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run a change in one transaction, in a larger map if needed. ``work`` may run again."""
        with self._writing:
            while True:
                try:
                    with self._open().begin(write=True) as transaction:
                        return work(transaction)
                except lmdb.MapFullError:
                    self._remap(2 * self._open().info()["map_size"])
                except lmdb.MapResizedError:
                    self._remap(0)

    def trim(self) -> None:
        """Map the file anew, so that pages touched so far no longer count as this process's."""
        with self._writing:
            self._remap(self._open().info()["map_size"])

    def table(self, name: str) -> lmdb._Database | None:
        """Handle of a sub-database; None where a read-only file lacks it."""
        return self._tables.get(name)

    def close(self) -> None:
        """Close the file; waits for the transactions of other threads."""
        with self._writing, self._mapping:
            self._close()

    def _open(self) -> lmdb.Environment:
        if self._lmdb is None:
            raise EnvironmentClosed
        return self._lmdb

    def _close(self) -> None:
        if self._lmdb is not None:
            self._lmdb.close()
            self._lmdb = None
        if self._marker is not None:
            self._marker.remove()

    def end(self) -> None:
        """Say that this process ends well, with the file open."""
        if self._marker is not None:
            self._marker.forget()

    def _remap(self, size: int) -> None:
        """Resize the map, 0: as another process did. The caller holds `_writing`."""
        with self._mapping:
            try:
                self._open().set_mapsize(size)
            except lmdb.Error:
                self._close()  # the map is gone
                raise

    def _open_tables(self, layout: Layout) -> dict[str, lmdb._Database]:
        """Open the sub-databases, creating those that a writable file lacks."""
        if self.writable:
            return self.write(lambda transaction: self._handles(layout, transaction))
        while True:
            try:
                return self._handles(layout, None)
            except lmdb.MapResizedError:  # another process has made the file grow since
                with self._writing:
                    self._remap(0)

    def _handles(
        self, layout: Layout, transaction: Transaction | None
    ) -> dict[str, lmdb._Database]:
        tables: dict[str, lmdb._Database] = {}
        for name in (_META, *layout.tables):
            try:
                handle = self._open().open_db(
                    name.encode(), txn=transaction, create=transaction is not None
                )
            except lmdb.NotFoundError:
                continue
            tables[name] = handle
            if name == _META:
                self._check_schema(layout, handle, transaction)
        return tables

    def _check_schema(
        self, layout: Layout, meta: lmdb._Database, transaction: Transaction | None
    ) -> None:
        if transaction is None:
            found = self.read(lambda reading: reading.get(_SCHEMA, db=meta))
        else:
            version = str(layout.schema).encode()
            transaction.put(_SCHEMA, version, db=meta, overwrite=False)
            found = transaction.get(_SCHEMA, db=meta)
        if found is not None and (not found.isdigit() or int(found) > layout.schema):
            given = found.decode(errors="replace")
            known = layout.schema
            msg = f"has schema {given}, newer than {known}, the newest known: upgrade convfind"
            raise FindDbVersionError(msg)


_registry_lock = threading.Lock()
_registry: dict[Path, Environment] = {}


def acquire(
    path: Path, layout: Layout, *, writable: bool, map_size: int, shared: bool = True
) -> Environment:
    """Open a file, or use the environment that this process has open for it.

    One that so far only read gives way to a writable one, which its users open in turn. One that is
    not shared stays, although a writable one was asked for.
    """
    real = path.resolve()
    with _registry_lock:
        environment = _registry.get(real)
        if environment is not None and environment.shared and writable > environment.writable:
            _discard(environment)
            environment = None
        if environment is None:
            environment = Environment(
                real, layout, writable=writable, map_size=map_size, shared=shared
            )
            _registry[real] = environment
        environment.users += 1
        return environment


def release(environment: Environment) -> None:
    """Give an environment back; the last user closes it."""
    with _registry_lock:
        environment.users -= 1
        if environment.users <= 0:
            _discard(environment)


def discard(environment: Environment) -> None:
    """Close an environment for all of its users, so that each has to open the file again."""
    with _registry_lock:
        _discard(environment)


def _discard(environment: Environment) -> None:
    if _registry.get(environment.path) is environment:
        del _registry[environment.path]
    environment.close()


def _before_fork() -> None:
    # No transaction may be active at a fork: the child could neither finish nor abort it.
    _registry_lock.acquire()
    for environment in _registry.values():
        environment._writing.acquire()
        environment._mapping.acquire()


def _after_fork_in_parent() -> None:
    for environment in _registry.values():
        environment._mapping.release()
        environment._writing.release()
    _registry_lock.release()


def _after_fork_in_child() -> None:
    # Inherited copies are closed before the file is opened anew: closing them later would drop the
    # locks of the new ones, which the system keeps for each process and file.
    for environment in _registry.values():
        environment._close()
    for environment in _registry.values():
        environment._mapping.release()
        environment._writing.release()
    _registry.clear()
    _registry_lock.release()


def _at_exit() -> None:
    for environment in list(_registry.values()):
        environment.end()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
