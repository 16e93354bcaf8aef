"""Solvers and tensors on a GPU, where the machine has one."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.testing import assert_backend, check_solver
from convfind_backend_cuda import CudaBackend
from convfind_backend_cuda.device import CudaDevice

PROBLEM = ConvProblem.forward(x=(2, 64, 14, 14), w=(64, 64, 3, 3), padding=1)


@pytest.mark.parametrize("direction", ["forward", "backward-data", "backward-weights"])
def test_solvers_keep_their_promises(gpu: CudaDevice, direction: str) -> None:
    problem = PROBLEM.with_direction(direction)
    taking = [
        s for s in default_registry().solvers_for(gpu.target)[0] if s.takes(problem, gpu.target)
    ]
    assert len(taking) > 3
    for solver in taking:
        report = check_solver(solver, gpu, shapes=[problem], every_variant=False)
        assert report.ok, str(report)


def test_the_backend_keeps_its_contract(gpu: CudaDevice) -> None:
    assert gpu
    assert_backend(CudaBackend())


def test_memory_comes_back_unchanged(gpu: CudaDevice) -> None:
    array = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    result = np.empty_like(array)
    gpu.read(gpu.upload(array), result)
    np.testing.assert_array_equal(result, array)
