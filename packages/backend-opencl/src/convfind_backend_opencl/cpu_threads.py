"""Lets the threads of a CPU runtime run on every core that the process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from convfind.target import DeviceKind, Target

#: With one of these the user has chosen where threads run.
_CHOICES = tuple(
    f"{prefix}_CPU_{name}" for prefix in ("DPCPP", "SYCL") for name in ("CU_AFFINITY", "PLACES")
)


@contextmanager
def unbound_workers(target: Target) -> Iterator[None]:
    """Free the workers that Intel's runtime starts, and binds to a core each, in the body.

    The thread that waits for a launch computes, too, and is not bound. If the system has it on a
    worker's core, the two take turns there while another core is idle.
    """
    if not _binds_workers(target):
        yield
        return
    before = _threads()
    yield
    cores = os.sched_getaffinity(0)
    for thread in _threads() - before:
        with suppress(ProcessLookupError):  # it has ended
            if os.sched_getaffinity(thread) < cores:
                os.sched_setaffinity(thread, cores)


def _binds_workers(target: Target) -> bool:
    if sys.platform != "linux" or any(name in os.environ for name in _CHOICES):
        return False
    return target.kind is DeviceKind.CPU and target.platform.startswith("Intel")


def _threads() -> set[int]:
    return set(map(int, os.listdir("/proc/self/task")))
