"""`Journal`: notes of what a process has stored and its database has not yet, in a file beside it.

Nothing waits for the disk here. A process that is killed leaves its journal to whoever opens the
database next, who makes up for it; a power cut may take it, as it takes the last stores.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from convfind.finddb.file_lock import locked

_HEAD = 8  # bytes: the size of a note, and its checksum
_numbers = count()


class Journal:
    """The notes of this process for one database, in a file that is locked as long as it lives."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._process = os.getpid()
        self._path: Path | None = None
        self._descriptor: int | None = None

    def append(self, note: bytes) -> bool:
        """Write a note; False where that cannot be, or no lock would say whose it is."""
        if self._process != os.getpid():
            self.forget()
        whole = len(note).to_bytes(4, "big") + zlib.crc32(note).to_bytes(4, "big") + note
        try:
            descriptor = self._begun()
            if descriptor is None:
                return False
            size = os.fstat(descriptor).st_size
            if os.write(descriptor, whole) == len(whole):
                return True
        except OSError:
            return False
        with suppress(OSError):
            os.ftruncate(descriptor, size)  # a torn note would hide those that follow
        return False

    def clear(self) -> None:
        """Forget all notes: the database has what they say."""
        if self._descriptor is not None and self._process == os.getpid():
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Remove the file; the database has what its notes say."""
        if self._path is not None and self._process == os.getpid():
            self._path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Let go of the file, as a child does of its parent's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._process, self._path, self._descriptor = os.getpid(), None, None

    def _begun(self) -> int | None:
        """Return the file, made and locked; None where it cannot be locked."""
        if self._descriptor is None:
            name = f"{self._database.name}-notes-{os.getpid()}-{next(_numbers)}"
            path = self._database.with_name(name)
            descriptor = locked(path, os.O_CREAT | os.O_EXCL | os.O_APPEND)
            if descriptor is not None and not os.fstat(descriptor).st_nlink:
                os.close(descriptor)  # who found it before it was locked has removed it
                return None
            if descriptor is not None:
                self._path, self._descriptor = path, descriptor
        return self._descriptor


def adopt(database: Path, take: Callable[[bytes], bool]) -> None:
    """Give the notes of processes that were killed to whoever makes up for them.

    A file whose notes were all taken is removed; one that another process looks at is left to it.
    """
    prefix = f"{database.name}-notes-"
    with suppress(OSError):
        paths = [path for path in database.parent.iterdir() if path.name.startswith(prefix)]
        for path in sorted(paths):
            try:
                descriptor = locked(path)
            except OSError:
                continue
            if descriptor is None:
                continue
            try:
                # All are taken, even where one is not.
                if all([take(note) for note in _notes(path.read_bytes())]):
                    path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _notes(contents: bytes) -> Iterator[bytes]:
    """Yield the notes of a file up to the first that is torn."""
    while len(contents) >= _HEAD:
        size = int.from_bytes(contents[:4], "big")
        note = contents[_HEAD : _HEAD + size]
        if len(note) < size or zlib.crc32(note) != int.from_bytes(contents[4:_HEAD], "big"):
            return
        yield note
        contents = contents[_HEAD + size :]
