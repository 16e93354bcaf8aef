"""Threads that compute on Intel's runtime: a core for each, unless the user has bound them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.cpu_runtime import intel_runtime
from convfind_backend_opencl.cpu_threads import Caller, callers_core

CORES = os.sched_getaffinity(0) if sys.platform == "linux" else set()
FIRST, LAST = min(CORES, default=0), max(CORES, default=0)
#: Prints how many workers may run on the first core.
WORKERS_ON_FIRST = """
import os
from convfind_backend_opencl import OpenCLBackend

core = min(os.sched_getaffinity(0))
backend = OpenCLBackend()
backend.targets()  # other runtimes start their threads here
before = set(os.listdir("/proc/self/task"))
device = backend.open("intel")
device.fill(device.allocate(1 << 24), 0)
device.synchronize()
workers = set(os.listdir("/proc/self/task")) - before
print(sum(core in os.sched_getaffinity(int(worker)) for worker in workers))
"""
pytestmark = [
    pytest.mark.skipif(intel_runtime() is None, reason="intel-opencl-rt is not installed"),
    pytest.mark.skipif(len(CORES) < 2, reason="workers need a second core, threads' cores Linux"),
]


@pytest.fixture
def caller(backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> Caller:
    """Find the thread on the last core: whether the system leaves it there is not certain."""
    caller = Caller(backend.open("intel").target)
    monkeypatch.setattr(caller, "_current_core", lambda: LAST)
    return caller


def test_workers_leave_the_first_core_to_the_caller(python: Callable[..., str]) -> None:
    assert python(WORKERS_ON_FIRST) == "0"


def test_a_thread_waits_on_the_first_core_and_is_free_again(caller: Caller) -> None:
    seen: list[set[int]] = []
    caller.wait(lambda: seen.append(os.sched_getaffinity(0)))
    assert seen == [{FIRST}]
    assert os.sched_getaffinity(0) == CORES


def test_a_thread_that_fails_is_free_again(caller: Caller) -> None:
    with pytest.raises(ZeroDivisionError):
        caller.wait(lambda: 1 // 0)
    assert os.sched_getaffinity(0) == CORES


def test_one_thread_at_a_time_takes_the_core(caller: Caller) -> None:
    seen: list[set[int]] = []

    def wait_again() -> None:
        os.sched_setaffinity(0, CORES)
        caller.wait(lambda: seen.append(os.sched_getaffinity(0)))

    caller.wait(wait_again)
    assert seen == [CORES]


def test_a_thread_that_was_bound_elsewhere_stays_there(caller: Caller) -> None:
    seen: list[set[int]] = []
    try:
        os.sched_setaffinity(0, {LAST})
        caller.wait(lambda: seen.append(os.sched_getaffinity(0)))
    finally:
        os.sched_setaffinity(0, CORES)
    assert seen == [{LAST}]


def test_a_thread_on_the_first_core_is_left_alone(backend: OpenCLBackend) -> None:
    caller = Caller(backend.open("intel").target)
    seen: list[set[int]] = []
    try:
        os.sched_setaffinity(0, {FIRST})
        caller.wait(lambda: os.sched_setaffinity(0, CORES))
        seen.append(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, CORES)
    assert seen == [CORES]


@pytest.mark.parametrize("name", ["DPCPP_CPU_PLACES", "SYCL_CPU_CU_AFFINITY"])
def test_a_user_who_places_threads_is_obeyed(
    name: str, backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = backend.open("intel").target
    monkeypatch.setenv(name, "close")
    assert callers_core(target) is None
