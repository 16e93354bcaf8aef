"""PyTorch's OpenMP threads, which spin after each of its operators and keep the cores busy."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import lru_cache

_SOFT = 1  # threads end; settings stay


def release_cores() -> None:
    """End the idle threads that this thread's parallel regions left behind, for they spin.

    The next parallel region starts new ones. Without a pool of threads this costs microseconds.
    """
    _pause()(_SOFT)


@lru_cache(maxsize=1)
def _pause() -> Callable[[int], int]:
    """Return OpenMP 5.0's ``omp_pause_resource_all`` of the library that PyTorch has loaded."""
    path = _loaded_openmp()
    if path is None:
        return lambda kind: 0
    try:
        pause = ctypes.CDLL(path).omp_pause_resource_all
    except (OSError, AttributeError):
        return lambda kind: 0
    pause.argtypes, pause.restype = [ctypes.c_int], ctypes.c_int
    return pause


def _loaded_openmp() -> str | None:
    if sys.platform != "linux":
        return None
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    # GNU's: that of LLVM pauses the threads of every thread, whose regions may be under way.
    runtimes = sorted(path for path in paths if path.rpartition("/")[2].startswith("libgomp"))
    return next(iter([path for path in runtimes if "/torch/" in path] or runtimes), None)
