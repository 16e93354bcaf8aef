"""Products of matrices by a runtime's library, computed by a mock device's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.device.target import DeviceKind, Target
from convfind.errors import ProblemError
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.solver.recipe import LibraryGemm
from convfind.testing.mock_backend import MockDevice
from convfind_operators import AttentionProblem, ElementType, MatMulProblem
from convfind_operators.library_matmul_solver import LibraryMatMulSolver
from convfind_operators.solver_list import solver_of
from convfind_operators.testing import assert_operator

CUDA = Target(
    *("cuda", "a gpu", DeviceKind.GPU, "NVIDIA", "CUDA", "sm_90", 132, "1"),
    features=frozenset({"cublas", "fp64"}),
    max_work_group=1024,
)
HIP = replace(CUDA, backend="hip", features=frozenset({"rocblas", "fp64"}), identity="")
NO_LIBRARY = replace(CUDA, features=frozenset({"fp64"}), identity="")
SOLVER = LibraryMatMulSolver(MatMulProblem)


def calls(problem: MatMulProblem) -> tuple[LibraryGemm, ...]:
    """Return the library's calls, checked on a mock device."""
    assert solver_of(problem, CUDA).solver_id == "operators-matmul-library"
    assert_operator(problem, MockDevice(CUDA))
    steps = SOLVER.solution(problem, CUDA).steps
    gemms = tuple(step for step in steps if isinstance(step, LibraryGemm))
    assert len(gemms) == len(steps)
    return gemms


@pytest.mark.parametrize(
    ("a", "b", "batch", "rows"),
    [
        ((7, 21), (21, 37), 1, 7),
        ((1, 1), (1, 1), 1, 1),
        ((4, 6, 19, 8), (4, 6, 8, 19), 24, 19),
        ((3, 70, 33), (33, 65), 1, 210),  # one b for all: the batch is more rows
        ((3, 1, 33), (33, 65), 1, 3),
        ((70, 33), (3, 33, 65), 3, 70),
        ((33,), (3, 33, 65), 3, 1),
        ((4, 33, 5), (5,), 1, 132),
        ((5,), (5,), 1, 1),
        ((5,), (5, 6), 1, 1),
        ((2, 5, 1), (2, 1, 6), 2, 5),
    ],
)
def test_a_batch_is_one_call(a: tuple[int, ...], b: tuple[int, ...], batch: int, rows: int) -> None:
    (gemm,) = calls(MatMulProblem(a=a, b=b))
    assert (gemm.batch, gemm.m) == (batch, rows)
    assert gemm.deterministic


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("target", [CUDA, HIP], ids=["cuda", "hip"])
def test_libraries_multiply_floating_types(dtype: str, target: Target) -> None:
    problem = MatMulProblem(a=(2, 5, 7), b=(2, 7, 3), dtype=ElementType(dtype), alpha=0.125)
    assert solver_of(problem, target).solver_id == "operators-matmul-library"
    assert_operator(problem, MockDevice(target))
    (gemm,) = SOLVER.solution(problem, target).steps
    assert isinstance(gemm, LibraryGemm)
    assert {one.dtype.value for one in gemm.matrices} == {dtype}
    assert gemm.alpha == 0.125


@pytest.mark.parametrize("turned_a", [False, True])
@pytest.mark.parametrize("turned_b", [False, True])
@pytest.mark.parametrize("m", [1, 9])
@pytest.mark.parametrize("k", [1, 17])
@pytest.mark.parametrize("n", [1, 40])
def test_transposed_matrices_are_read_where_they_lie(
    turned_a: bool, turned_b: bool, m: int, k: int, n: int
) -> None:
    strides: dict[str, tuple[int, ...]] = {"y": (m * (n + 2) + 5, n + 2, 1)}
    if turned_a:
        strides["a"] = (m * k, 1, m)
    if turned_b:
        strides["b"] = (k * n + 3, 1, k)
    (gemm,) = calls(MatMulProblem(a=(2, m, k), b=(2, k, n), strides=strides))
    if min(m, k, n) > 1:
        assert (gemm.trans_a, gemm.trans_b) == (turned_a, turned_b)


def attention(heads: int, length: int, depth: int, images: int = 2) -> MatMulProblem:
    """Return the product of queries and keys that lie as one linear layer has written them."""
    pixel = 3 * heads * depth
    image = length * pixel
    return MatMulProblem(
        a=(images, heads, length, depth),
        b=(images, heads, depth, length),
        strides={"a": (image, depth, pixel, 1), "b": (image, depth, 1, pixel)},
    )


def test_a_batch_without_one_step_is_a_few_calls_that_are_worth_it() -> None:
    gemms = calls(attention(heads=3, length=200, depth=128, images=4))
    assert [(one.batch, one.m, one.trans_b) for one in gemms] == [(4, 200, True)] * 3
    assert [one.a.offset for one in gemms] == [0, 512, 1024]
    (gemm,) = calls(attention(heads=3, length=20, depth=8, images=1))
    assert gemm.batch == 3


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (attention(heads=3, length=20, depth=8), Reason.LAYOUT),
        (attention(heads=65, length=500, depth=64, images=66), Reason.LAYOUT),
        (MatMulProblem(a=(4, 0), b=(0, 5)), Reason.SIZE_LIMIT),
        (MatMulProblem(a=(4, 3), b=(3, 5), alpha=0), Reason.SIZE_LIMIT),
        (MatMulProblem(a=(2**31, 1), b=(1, 5)), Reason.SIZE_LIMIT),
        (MatMulProblem(a=(4, 3), b=(3, 5), dtype=ElementType.INT32), Reason.DTYPE),
        (MatMulProblem(a=(4, 3), b=(3, 5), strides={"a": (6, 2)}), Reason.LAYOUT),
        (MatMulProblem(a=(4, 3), b=(3, 5), strides={"a": (2, 1)}), Reason.LAYOUT),
        (MatMulProblem(a=(4, 3), b=(3, 5), strides={"y": (1, 4)}), Reason.LAYOUT),
    ],
    ids=lambda value: value.key if isinstance(value, MatMulProblem) else str(value),
)
def test_other_products_are_the_kernels(problem: MatMulProblem, reason: Reason) -> None:
    answer = SOLVER.takes(problem, CUDA)
    assert isinstance(answer, Rejected)
    assert answer.reason is reason
    assert solver_of(problem, CUDA).solver_id == "operators-matmul"


def test_a_device_without_a_library_has_the_kernel() -> None:
    problem = MatMulProblem(a=(4, 3), b=(3, 5))
    answer = SOLVER.takes(problem, NO_LIBRARY)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.FEATURE
    assert solver_of(problem, NO_LIBRARY).solver_id == "operators-matmul"


def test_products_without_elements_have_no_steps() -> None:
    problem = MatMulProblem(a=(2, 0, 3), b=(2, 3, 5))
    assert solver_of(problem, CUDA).solution(problem, CUDA).steps == ()


@pytest.mark.parametrize("allow_tf32", [False, True])
def test_factors_are_rounded_to_tf32_where_the_problem_allows_it(allow_tf32: bool) -> None:
    problem = MatMulProblem(a=(64, 8), b=(8, 64), allow_tf32=allow_tf32)
    (gemm,) = calls(problem)
    assert gemm.allow_tf32 is allow_tf32
    # Results of such factors are right where they are allowed, and nowhere else.
    drawn = problem.draw(np.random.default_rng(0))
    right = problem.reference({name: array.astype(np.float64) for name, array in drawn.items()})
    rounded = problem.reference({name: of_tf32(array) for name, array in drawn.items()})
    allowed = problem.allowed_error(drawn, right)
    assert bool((np.abs(rounded["y"] - right["y"]) <= allowed["y"]).all()) is allow_tf32


def of_tf32(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the nearest numbers of 11 bits."""
    return (array.view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32).astype(np.float64)


def test_whole_numbers_are_not_scaled() -> None:
    with pytest.raises(ProblemError, match="alpha"):
        MatMulProblem(a=(4, 3), b=(3, 5), dtype=ElementType.INT32, alpha=0.5)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "problem",
    [
        MatMulProblem(a=(7, 21), b=(21, 37)),
        MatMulProblem(a=(1, 1), b=(1, 1)),
        MatMulProblem(a=(2, 6, 197, 64), b=(2, 6, 64, 197), alpha=0.125),
        MatMulProblem(a=(2, 6, 197, 197), b=(2, 6, 197, 64)),
        MatMulProblem(a=(5, 19, 64), b=(5, 64, 19), strides={"b": (1216, 1, 64)}),
        MatMulProblem(a=(5, 19, 64), b=(5, 64, 19), strides={"a": (1216, 1, 19)}),
        MatMulProblem(a=(3, 5, 33), b=(33, 65)),
        MatMulProblem(a=(70, 33), b=(3, 33, 65)),
        MatMulProblem(a=(4, 33, 5), b=(5,)),
        MatMulProblem(a=(64, 512), b=(512, 64), allow_tf32=True),
        attention(heads=3, length=200, depth=128, images=4),
    ],
    ids=lambda problem: problem.key,
)
def test_the_library_of_a_device_is_right(
    convfind_device: Device, problem: MatMulProblem, dtype: str
) -> None:
    target = convfind_device.target
    if not target.has("cublas") and not target.has("rocblas"):
        pytest.skip(f"{target.name} has no library")
    problem = replace(problem, dtype=ElementType(dtype))
    assert solver_of(problem, target).solver_id == "operators-matmul-library"
    assert_operator(problem, convfind_device)


@pytest.mark.parametrize("dtype", [ElementType.FLOAT64, ElementType.FLOAT16, ElementType.BFLOAT16])
def test_a_type_that_is_not_rounded_to_tf32_has_the_same_problem_with_and_without_it(
    dtype: ElementType,
) -> None:
    sizes = (2, 1, 5, 8)
    for plain in (
        MatMulProblem(a=(2, 5, 8), b=(8, 9), dtype=dtype),
        AttentionProblem(q=sizes, k=sizes, v=sizes, dtype=dtype),
    ):
        assert replace(plain, allow_tf32=True) == plain
        assert replace(plain, allow_tf32=True).key == plain.key
