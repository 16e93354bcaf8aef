"""PyTorch's idle threads end before convfind's kernels start."""

from __future__ import annotations

import os
import sys
import time

import pytest
import torch

from convfind_torch.openmp import release_cores


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of threads")
def test_no_thread_spins_after_cores_are_released() -> None:
    x = torch.randn(4, 64, 56, 56)

    def threads() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    torch.relu(x)
    release_cores()
    before = threads()
    torch.relu(x)
    started = threads() - before
    if not started:
        pytest.skip("PyTorch's threads are not those of GNU's OpenMP here")
    release_cores()
    for _ in range(100):  # a thread that has ended is listed for a moment more
        if not threads() & started:
            break
        time.sleep(0.01)
    assert not threads() & started
    burnt = time.process_time()
    time.sleep(0.02)
    assert time.process_time() - burnt < 0.02


def test_operators_compute_after_it_as_before() -> None:
    x = torch.randn(4, 64, 56, 56)
    right = torch.relu(x)
    for _ in range(3):
        release_cores()
        torch.testing.assert_close(torch.relu(x), right)
