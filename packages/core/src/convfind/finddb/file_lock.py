"""`locked`: whole files that one use has to itself, until it ends in whatever way."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def locked(path: Path, flags: int = 0) -> int | None:
    """Open and lock a file; None where the system has no such locks.

    Raises:
        OSError: it cannot be opened or locked; `BlockingIOError` where another use has it locked.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        if flags:
            path.unlink(missing_ok=True)
        raise
    return descriptor
