"""`DatabaseFile`: a database file under the rule that a cache is never fatal."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import lmdb

from convfind.errors import FindDbCorruptError, FindDbVersionError
from convfind.finddb.degradation import Degradation
from convfind.finddb.environment import (
    CORRUPT,
    Environment,
    EnvironmentClosed,
    Layout,
    Transaction,
    acquire,
    discard,
    release,
)
from convfind.finddb.file_check import (
    fault,
    fault_after_bad_end,
    file_inode,
    folder_lock,
    is_written,
    move_aside,
)
from convfind.finddb.fork_safety import fork_safe_lock
from convfind.finddb.network_mounts import network_file_system

Result = TypeVar("Result")

_opening = fork_safe_lock()  # two threads that open one file at once would count one user too many

_MAP_SIZE = 256 << 20  # address space, not disk; doubles whenever it is full


class DatabaseFile:
    """Opened at first use. Nothing here raises because of the file: what fails is a miss.

    A damaged file that is ours to write is moved aside and replaced by a new one. A file that
    cannot be used at all is given up until `close`.
    """

    def __init__(
        self,
        path: Path,
        layout: Layout,
        *,
        writable: bool,
        allow_network: bool = False,
        map_size: int = _MAP_SIZE,
    ) -> None:
        self.path = path
        self.degradation = Degradation(path)
        self._layout = layout
        self._writable = writable
        self._allow_network = allow_network
        self._map_size = map_size
        self._environment: Environment | None = None
        self._given_up = False
        #: Seconds that the last change took.
        self.change_seconds = 0.0

    def get(self, table: str, key: bytes) -> bytes | None:
        """Read one value; None where it is missing or the file cannot be read."""
        environment = self._environment
        if environment is not None:
            try:
                return environment.get(table, key)
            except (lmdb.Error, EnvironmentClosed):
                pass  # the general way below deals with it
        return self._guarded(lambda environment: environment.get(table, key), "read")

    def scan(self, table: str, start: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Read up to so many keys and values in key order, from a key on."""

        def work(environment: Environment) -> list[tuple[bytes, bytes]]:
            handle = environment.table(table)
            if handle is None:
                return []

            def some(transaction: Transaction) -> list[tuple[bytes, bytes]]:
                cursor = transaction.cursor(handle)
                items = cursor.iternext() if cursor.set_range(start) else iter(())
                return [item for _, item in zip(range(count), items, strict=False)]

            return environment.read(some)

        return self._guarded(work, "read") or []

    def write(self, work: Callable[[Environment, Transaction], None]) -> bool:
        """Run a change in one transaction; ``work`` may run again. False where it failed."""

        def change(environment: Environment) -> bool:
            if not environment.writable and environment.shared:
                raise EnvironmentClosed  # opened by a reader in this moment
            if not environment.writable:
                if not self.degradation.reasons:
                    self.degradation.add("is open for reading only; changes stay in memory")
                return False
            if file_inode(self.path) != environment.inode:
                discard(environment)  # deleted or replaced under us: go on with what is there now
                raise EnvironmentClosed
            began = time.monotonic()
            environment.write(lambda transaction: work(environment, transaction))
            self.change_seconds = time.monotonic() - began
            return True

        return self._guarded(change, "write", writing=True) or False

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with _opening:
            environment, self._environment = self._environment, None
            self._given_up = False
        if environment is not None:
            release(environment)

    def _guarded(
        self, work: Callable[[Environment], Result], verb: str, *, writing: bool = False
    ) -> Result | None:
        for _ in range(3):
            environment = self._usable(writing)
            if environment is None:
                return None
            try:
                return work(environment)
            except EnvironmentClosed:
                continue
            except CORRUPT as exc:
                self._recover(environment, exc)
            except (lmdb.Error, OSError) as exc:
                self.degradation.add(f"cannot {verb}: {exc}")
                return None
        return None

    def _usable(self, writing: bool) -> Environment | None:
        """The open file. It is opened for reading until something is written: a reader must not
        wait for the writer of another process, which may have been stopped.
        """
        with _opening:
            environment = self._environment
            if self._given_up:
                return environment
            if environment is not None and not environment.closed:
                if environment.writable or not (writing and environment.shared):
                    return environment
                release(environment)
            self._environment = None
            try:
                self._environment = self._opened(writing)
            except (lmdb.Error, OSError, FindDbCorruptError, FindDbVersionError) as exc:
                self._give_up(str(exc))
            return self._environment

    def _opened(self, writing: bool) -> Environment:
        if self.path.parts[:1] and self.path.parts[0].startswith("~"):
            msg = f"begins with {self.path.parts[0]}, the home folder of nobody here"
            raise OSError(msg)
        if not self._writable:
            problem = fault(self.path)
            if problem is not None or file_inode(self.path) is None:
                raise FindDbCorruptError(problem or "does not exist")
            return self._acquire(writable=False, shared=False)
        kind = None if self._allow_network else network_file_system(self.path)
        if kind is not None:
            msg = f"is on a network file system ({kind}), which its format does not support"
            raise OSError(msg)
        try:
            make_private_folder(self.path.parent)
            with folder_lock(self.path.parent):
                return self._opened_or_replaced(writing)
        except (lmdb.Error, OSError) as exc:
            return self._opened_for_reading(exc)

    def _opened_or_replaced(self, writing: bool) -> Environment:
        inode = file_inode(self.path)
        problem = fault(self.path) or fault_after_bad_end(self.path)
        if problem is not None:
            self._set_aside(inode, problem)
        writing = writing or not is_written(self.path)
        try:
            return self._acquire(writable=writing)
        except CORRUPT as exc:
            self._set_aside(file_inode(self.path), exc)
            return self._acquire(writable=True)

    def _opened_for_reading(self, failure: Exception) -> Environment:
        """Open a file that cannot be written; raises the failure where it cannot be read either."""
        if file_inode(self.path) is None or fault(self.path) is not None:
            raise failure
        try:
            environment = self._acquire(writable=False, shared=False)
        except (lmdb.Error, OSError):
            raise failure from None
        self.degradation.add(f"is open for reading only, changes stay in memory: {failure}")
        return environment

    def _acquire(self, *, writable: bool, shared: bool = True) -> Environment:
        return acquire(
            self.path, self._layout, writable=writable, map_size=self._map_size, shared=shared
        )

    def _set_aside(self, inode: int | None, why: object) -> None:
        aside = move_aside(self.path, inode)
        if aside is not None:
            self.degradation.add(f"was damaged ({why}); moved to {aside.name} and started anew")

    def _recover(self, environment: Environment, exc: Exception) -> None:
        """Deal with damage met in use: start anew where the file is ours, else give it up."""
        if not environment.shared:
            self._give_up(f"is damaged: {exc}")
            return
        with _opening:
            discard(environment)
            try:
                with folder_lock(self.path.parent):
                    self._set_aside(environment.inode, exc)
            except OSError as failure:
                self._give_up(f"is damaged ({exc}) and cannot be moved aside: {failure}")

    def _give_up(self, why: str) -> None:
        environment, self._environment = self._environment, None
        self._given_up = True
        if environment is not None:
            release(environment)
        outcome = "continuing in memory only" if self._writable else "skipped"
        self.degradation.add(f"{why}; {outcome}")


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents for this user only."""
    if folder.is_dir():
        return
    make_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def file_in(path: Path, name: str) -> Path:
    """The database file that a path means: the file itself, or the one of that name in a folder."""
    return path if path.suffix == ".lmdb" else path / name
