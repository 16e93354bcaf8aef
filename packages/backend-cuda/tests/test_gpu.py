"""Solvers and tensors on a GPU, where the machine has one."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.testing import assert_backend, check_solver
from convfind.types import Direction
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


@pytest.mark.parametrize(
    ("dtype", "layout"), [("float64", "NCHW"), ("float64", "NHWC"), ("int8", "NHWC")]
)
@pytest.mark.parametrize("size", [1, 3])
def test_cublas_multiplies_wide_and_whole_numbers(
    gpu: CudaDevice, dtype: str, layout: str, size: int
) -> None:
    problem = ConvProblem.forward(
        x=(2, 8, 12, 12), w=(16, 8, size, size), padding=size // 2, dtype=dtype, layout=layout
    )
    registry, word = default_registry(), "pointwise" if size == 1 else "im2col"
    for way in [Direction.FORWARD] if dtype == "int8" else Direction:
        solver = registry.find_solver(f"cuda-gemm-{word}-{way.short}")
        assert solver is not None
        shapes = [problem.with_direction(way)]
        assert solver.takes(shapes[0], gpu.target)
        report = check_solver(solver, gpu, shapes=shapes, every_variant=False)
        assert report.ok, str(report)


def test_the_backend_keeps_its_contract(gpu: CudaDevice) -> None:
    assert gpu
    assert_backend(CudaBackend())


def test_memory_comes_back_unchanged(gpu: CudaDevice) -> None:
    array = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    result = np.empty_like(array)
    gpu.read(gpu.upload(array), result)
    np.testing.assert_array_equal(result, array)
