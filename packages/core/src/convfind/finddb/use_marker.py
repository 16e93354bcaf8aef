"""`UseMarker`: a file beside a database that is left behind where its last use ended badly.

A process keeps its marker locked as long as it has the database open, and removes it when it closes
the database or ends. A marker that nobody has locked is of a process that was killed, by damage in
the file perhaps. Where files cannot be locked there are no markers, and nothing is concluded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from convfind.finddb.file_lock import locked

_numbers = count()


class UseMarker:
    """The marker of this process for one database."""

    def __init__(self, database: Path) -> None:
        """Place it, where the folder allows; the caller holds the lock of the folder."""
        self._process = os.getpid()
        self._path = database.with_name(f"{database.name}-open-{self._process}-{next(_numbers)}")
        self._descriptor: int | None = None
        with suppress(OSError):
            self._descriptor = locked(self._path, os.O_CREAT | os.O_EXCL)

    def remove(self) -> None:
        """Say that the use ended well. In a child the copy of its parent's only lets go."""
        if self._process == os.getpid():
            self.forget()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def forget(self) -> None:
        """Remove the file and keep the lock: for a process that ends with the database open."""
        if self._descriptor is not None and self._process == os.getpid():
            self._path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of other uses of a database."""

    left: tuple[Path, ...]  # by processes that were killed
    held: int  # by processes that use it now


def markers_of(database: Path) -> Markers:
    """Look at the markers beside a database; the caller holds the lock of the folder."""
    left, held = [], 0
    for path in _markers(database):
        try:
            descriptor = locked(path)
        except BlockingIOError:
            held += 1
            continue
        except OSError:
            continue
        if descriptor is None:
            continue
        if os.fstat(descriptor).st_nlink:  # else its process has just removed it
            left.append(path)
        os.close(descriptor)
    return Markers(tuple(left), held)


def _markers(database: Path) -> Iterator[Path]:
    prefix = f"{database.name}-open-"
    with suppress(OSError):
        yield from (path for path in database.parent.iterdir() if path.name.startswith(prefix))
