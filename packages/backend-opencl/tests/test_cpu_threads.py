"""Workers of Intel's runtime: free to run on every core, unless the user has bound them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from convfind_backend_opencl.cpu_runtime import intel_runtime

BOUND_THREADS = """
import os
from convfind_backend_opencl import OpenCLBackend

device = OpenCLBackend().open("intel")
device.fill(device.allocate(1 << 24), 0)
device.synchronize()
threads = map(int, os.listdir("/proc/self/task"))
print(sum(len(os.sched_getaffinity(thread)) == 1 for thread in threads))
"""
CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 0
pytestmark = [
    pytest.mark.skipif(intel_runtime() is None, reason="intel-opencl-rt is not installed"),
    pytest.mark.skipif(CORES < 2, reason="workers need a second core, threads' cores Linux"),
]


def test_workers_may_run_on_every_core(python: Callable[..., str]) -> None:
    assert python(BOUND_THREADS) == "0"


def test_what_the_user_has_bound_stays_bound(python: Callable[..., str]) -> None:
    wish = {"DPCPP_CPU_PLACES": "threads", "DPCPP_CPU_CU_AFFINITY": "close"}
    assert int(python(BOUND_THREADS, **wish)) >= 2
