"""Locks that are free in both processes after a fork, whichever thread forks."""

from __future__ import annotations

import os
import threading


def fork_safe_lock() -> threading.RLock:
    """Create a lock that a fork waits for. For module level only: it is never forgotten."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock
