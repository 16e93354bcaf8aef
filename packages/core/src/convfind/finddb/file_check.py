"""Database files before LMDB maps them: finding deadly damage, and moving damaged files aside."""

from __future__ import annotations

import os
import signal
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from lmdb.verify import VerifyError, verify

from convfind.finddb.use_marker import markers_of

_MAGIC = 0xBEEFC0DE
_FORMAT = 1  # of LMDB 0.9, which new files have; LMDB itself judges the others
_HEADER = 16  # bytes before the meta data of a page
_LARGEST_PAGE = 65536

_PATIENCE = 10.0  # seconds to wait for the lock of a folder
_PAUSE = 0.01
_EXAMINATION = 60.0  # seconds, and for so many bytes one more
_EXAMINED_EACH_SECOND = 4 << 20

# Who gets these was ended by somebody, not by what it read.
_FROM_OUTSIDE = tuple(
    -number
    for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
    if (number := getattr(signal, name, None)) is not None
)


class _Meta(NamedTuple):
    transaction: int
    last_page: int
    page_size: int


def fault(path: Path) -> str | None:
    """Say why LMDB must not open the file; None where it may, also for a missing or empty one.

    LMDB maps files without comparing their size with what they claim to hold, and the first touch
    of a page beyond the end kills the process.

    Raises:
        OSError: it cannot be read, or it is a pipe or a device, which might never end.
    """
    for _ in range(3):
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                msg = "is not a regular file"
                raise OSError(msg)
            with path.open("rb") as file:
                head = file.read(_LARGEST_PAGE + 4096)
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return None
        if not size or not _checkable(head):
            return None
        meta = _newest_meta(head)
        if meta is None:
            return "not a database"
        wanted = (meta.last_page + 1) * meta.page_size
        if size >= wanted:
            return None
        # The last pages may be missing because they are free and were never written.
        with suppress(VerifyError, OSError):
            if not verify(str(path)):  # type: ignore[no-untyped-call]
                _fill(path, wanted)
                return None
        with path.open("rb") as file:
            unchanged = _newest_meta(file.read(_LARGEST_PAGE + 4096)) == meta
        if unchanged:
            return f"truncated: {size} bytes of {wanted}"
    return None  # someone writes to it faster than it can be checked, so it is alive


def fault_after_bad_end(path: Path) -> str | None:
    """Look closely at a file that a process had open when it was killed; the folder is locked.

    The damage that killed it may kill again, so that another process looks. Where every use ended
    well, which is nearly always, nothing is looked at.

    Returns:
        The file's fault, None where it has none. Where somebody ends the other process,
        nothing is known, and the next opening looks again.
    """
    markers = markers_of(path)
    if not markers.left:
        return None
    try:
        why = _examined(path, at_rest=not markers.held) if is_written(path) else None
    except _EndedFromOutside:
        return None
    for marker in markers.left:
        marker.unlink(missing_ok=True)
    return why


class _EndedFromOutside(Exception):
    """Somebody ended the process that examined a file."""


def _examined(path: Path, *, at_rest: bool) -> str | None:
    """Let a process of its own read the whole file; one that cannot be started finds nothing."""
    import subprocess  # hardly ever needed

    program = Path(__file__).with_name("examination.py")
    words = [sys.executable, "-P", str(program), str(path), "at-rest" if at_rest else "in-use"]
    try:
        limit = _EXAMINATION + path.stat().st_size / _EXAMINED_EACH_SECOND
        done = subprocess.run(words, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return "reading it never ends"
    except (OSError, ValueError):
        return None
    if done.returncode in _FROM_OUTSIDE:
        raise _EndedFromOutside
    if done.returncode < 0:
        return f"reading it kills a process by signal {-done.returncode}"
    if done.returncode == 1 and done.stdout:
        return done.stdout.decode(errors="replace").strip()
    return None


def move_aside(path: Path, inode: int | None) -> Path | None:
    """Rename a damaged file and its lock file to ``<name>.corrupt-<n>``, holding `folder_lock`.

    Returns the new name, or None where another process was faster and the file with that inode is
    no longer there.
    """
    if file_inode(path) != inode:
        return None
    number = 1
    while (aside := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    path.rename(aside)
    with suppress(FileNotFoundError):
        lock_file(path).rename(lock_file(aside))
    return aside


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Keep processes from opening databases in a folder while one of them moves a file aside.

    Else a process could open the new file with the lock file of the old one. Where a folder cannot
    be locked nothing is, nor where another process does not give the lock back, because it was
    stopped: damage that two processes find in the same instant is rare enough.
    """
    with ExitStack() as stack:
        if sys.platform != "win32":
            with suppress(OSError):
                descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, descriptor)
                deadline = time.monotonic() + _PATIENCE
                while not _flock(descriptor) and time.monotonic() < deadline:
                    time.sleep(_PAUSE)
        yield


def _flock(descriptor: int) -> bool:
    """Lock an open file or folder; False where another process has the lock."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def file_inode(path: Path) -> int | None:
    """Identity of the file at the path, None where there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def file_size(path: Path) -> int:
    """Bytes of the file at the path, 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def is_written(path: Path) -> bool:
    """True where there is something at the path to be read."""
    return file_size(path) > 0


def lock_file(path: Path) -> Path:
    """LMDB's lock file beside a database."""
    return path.with_name(f"{path.name}-lock")


def reserve_lock_file(path: Path, size: int) -> None:
    """Create the lock file with all of its blocks.

    LMDB creates it with a hole and writes through a mapping: on a full disk that kills the process,
    where this raises OSError. An existing file is not touched, because closing it would drop the
    locks that this process may hold on it.
    """
    name = lock_file(path)
    if not hasattr(os, "posix_fallocate") or name.exists():
        return
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        name.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _checkable(head: bytes) -> bool:
    """True for databases of the format known here, and for files that are no database."""
    if struct.calcsize("P") != 8:
        return False  # the offsets below are those of 64-bit machines
    if len(head) < _HEADER + 8:
        return True
    magic, version = struct.unpack_from("=II", head, _HEADER)
    return bool(magic != _MAGIC or version == _FORMAT)


def _newest_meta(head: bytes) -> _Meta | None:
    """Read both meta pages; None where one of them is damaged."""
    metas = []
    offset = 0
    for _ in range(2):
        if len(head) < offset + 152:
            return None
        magic, version = struct.unpack_from("=II", head, offset + _HEADER)
        (page_size,) = struct.unpack_from("=I", head, offset + 40)
        last_page, transaction = struct.unpack_from("=QQ", head, offset + 136)
        if magic != _MAGIC or version != _FORMAT or not 256 <= page_size <= _LARGEST_PAGE:
            return None
        metas.append(_Meta(transaction, last_page, page_size))
        offset = page_size
    return max(metas)


def _fill(path: Path, size: int) -> None:
    """Give the file its full size, so that the next opening need not verify it again."""
    if not hasattr(os, "posix_fallocate"):
        return
    with suppress(OSError), path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, size)
