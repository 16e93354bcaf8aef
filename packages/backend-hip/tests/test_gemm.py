"""The GEMM fallback: which types it takes, and its products on a mock device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convfind.backend_kit.library_gemm.solvers import library_gemm_solvers
from convfind.checking.accuracy import check_error, error_bound, measure_error
from convfind.checking.random_data import random_data
from convfind.checking.reference import reference_convolution
from convfind.device.target import DeviceKind, Target
from convfind.errors import BackendUnavailableError
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import InvokeArgs
from convfind.solver import Solver
from convfind.solver.applicability import Rejected
from convfind.solver.recipe import LibraryGemm
from convfind.testing.mock_backend import MockDevice
from convfind.types import DataType, Direction
from convfind_backend_hip import rocblas

TARGET = Target(
    *("hip", "a gpu", DeviceKind.GPU, "AMD", "ROCm", "gfx90a", 110, "1"),
    features=frozenset({"rocblas"}),
    max_work_group=1024,
)
TYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16)
SOLVERS = library_gemm_solvers("hip", features=["rocblas"])
POINTWISE = [solver for solver in SOLVERS if "pointwise" in solver.solver_id]


def problem_of(dtype: DataType, size: int = 1, **more: Any) -> ConvProblem:
    return ConvProblem.forward(x=(2, 6, 5, 5), w=(8, 6, size, size), dtype=dtype, **more)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("way", list(Direction))
def test_floating_types_have_one_solver_each(dtype: DataType, size: int, way: Direction) -> None:
    problem = problem_of(dtype, size).with_direction(way)
    assert sum(bool(s.takes(problem, TARGET)) for s in SOLVERS) == 1


@pytest.mark.parametrize("size", [1, 3])
def test_int8_gives_int32(size: int) -> None:
    problem = problem_of(DataType.INT8, size)
    accepted = [s for s in SOLVERS if s.takes(problem, TARGET)]
    assert len(accepted) == 1
    gemms = [g for g in accepted[0].solution(problem, TARGET).steps if isinstance(g, LibraryGemm)]
    assert {(g.a.dtype, g.b.dtype, g.c.dtype) for g in gemms} == {
        (DataType.INT8, DataType.INT8, DataType.INT32)
    }


def test_float64_and_a_missing_library_are_refused() -> None:
    forward = POINTWISE[0]
    refused = forward.takes(problem_of(DataType.FLOAT64), TARGET)
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.DTYPE
    bare = Target(*("hip", "a gpu", DeviceKind.GPU, "AMD", "ROCm", "gfx90a", 110, "1"))
    refused = forward.takes(problem_of(DataType.FLOAT32), bare)
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.FEATURE


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", "/nonexistent")
    monkeypatch.setattr(rocblas, "_NAMES", ("libno-rocblas.so",))
    rocblas.load_library.cache_clear()
    try:
        with pytest.raises(BackendUnavailableError, match="install rocBLAS"):
            rocblas.load_library()
        assert not rocblas.has_library()
    finally:
        rocblas.load_library.cache_clear()


@pytest.mark.parametrize("deterministic", [False, True])
def test_products_are_as_deterministic_as_the_problem(deterministic: bool) -> None:
    problem = problem_of(DataType.FLOAT32, deterministic=deterministic)
    (gemm,) = POINTWISE[0].solution(problem, TARGET).steps
    assert isinstance(gemm, LibraryGemm)
    assert gemm.deterministic is deterministic


@pytest.mark.parametrize("solver", POINTWISE, ids=lambda solver: solver.solver_id)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_products_are_the_convolution(solver: Solver, layout: str) -> None:
    (way,) = (way for way in Direction if solver.takes(_directed(way, layout), TARGET))
    problem = _directed(way, layout)
    reads = random_data(problem, 1)
    device = MockDevice(TARGET)
    buffers = {
        name: device.upload(np.ascontiguousarray(array))
        for name, array in zip(way.reads, reads, strict=True)
    }
    buffers[way.writes] = device.allocate(problem.nbytes(way.writes))
    solution = solver.solution(problem, TARGET)
    device.invoker(solution.steps, {})(InvokeArgs(**buffers))
    expected = reference_convolution(problem, *reads)
    result = np.empty(expected.shape, problem.tensor_dtype(way.writes).numpy)
    device.read(buffers[way.writes], result)
    assert check_error(measure_error(result, expected), error_bound(problem, 10))


def _directed(way: Direction, layout: str) -> ConvProblem:
    return problem_of(DataType.FLOAT32, layout=layout).with_direction(way)


def test_matrices_that_an_int_does_not_count_are_refused() -> None:
    problem = ConvProblem.forward(x=(1, 1, 2**16, 2**16), w=(1, 1, 1, 1))
    answer = POINTWISE[0].takes(problem, TARGET)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.SIZE_LIMIT
