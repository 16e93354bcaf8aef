"""`Turn`: whoever measures on a CPU has its cores alone; those who compile for it share them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from convfind.device.target import DeviceKind, Target
from convfind.finddb.database_file import make_private_folder


class Turn:
    """Locks of a user's processes on the cores of a machine, a byte of a file for each core.

    Processes on different cores do not wait for each other. Where there is no file to lock,
    nobody waits.
    """

    def __init__(self, cores: Sequence[int], path: Path) -> None:
        """Note the cores; they are taken in ascending order, so that nobody waits in a circle."""
        self._cores = sorted(cores)
        self._path = path
        self._descriptor: int | None = None

    @classmethod
    def on(cls, target: Target) -> Self:
        """Return the turn on a device: a CPU's is on the cores of this process, others have none.

        A worker has a GPU for itself, and the CPU beside it disturbs no measurement there.
        """
        user = os.getuid() if hasattr(os, "getuid") else 0
        path = Path(tempfile.gettempdir(), f"convfind-tune-{user}", "cores.lock")
        return cls(_cores() if target.kind is DeviceKind.CPU else (), path)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nobody else works on these cores, and keep the others waiting."""
        with self._locked("LOCK_EX"):
            yield

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Wait until nobody has one of these cores alone."""
        with self._locked("LOCK_SH"):
            yield

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @contextmanager
    def _locked(self, kind: str) -> Iterator[None]:
        if not self._cores or not self._is_open():
            yield
            return
        import fcntl

        assert self._descriptor is not None
        with suppress(OSError):  # a file system without locks
            for core in self._cores:
                fcntl.lockf(self._descriptor, getattr(fcntl, kind), 1, core)
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _is_open(self) -> bool:
        if self._descriptor is None:
            try:
                make_private_folder(self._path.parent)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o600)
            except OSError:
                return False
        return True


def _cores() -> Sequence[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return range(os.cpu_count() or 1)
