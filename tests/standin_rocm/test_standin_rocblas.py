"""The stand-in's rocBLAS against NumPy."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_int64, c_void_p
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from standin import Standin
from standin_kernels import Array

import convfind

# Type of A and B, of C and D, of the sum; then the same in rocBLAS's numbers.
TYPES = [
    pytest.param(np.float32, np.float32, np.float32, (151, 151, 151), id="float32"),
    pytest.param(np.float16, np.float16, np.float32, (150, 150, 151), id="float16"),
    pytest.param(
        ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32, (168, 168, 151), id="bfloat16"
    ),
    pytest.param(np.int8, np.int32, np.int32, (160, 162, 162), id="int8"),
]


@pytest.mark.parametrize(("given", "result", "total", "numbers"), TYPES)
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
def test_batched_products(
    standin: Standin,
    given: type,
    result: type,
    total: type,
    numbers: tuple[int, int, int],
    turn_a: bool,
    turn_b: bool,
) -> None:
    library = standin.library("rocblas")
    random = np.random.default_rng(3)
    m, n, k, batches = 5, 4, 3, 2
    # Column-major matrices are row-major ones turned: shapes are (batch, columns, rows).
    a: Array = random.integers(-3, 4, (batches, *((m, k) if turn_a else (k, m)))).astype(given)
    b: Array = random.integers(-3, 4, (batches, *((k, n) if turn_b else (n, k)))).astype(given)
    c: Array = random.integers(-3, 4, (batches, n, m)).astype(result)
    d = np.zeros_like(c)
    alpha: Array = np.array(2, total)
    beta: Array = np.array(3, total)
    handle = c_void_p()
    assert library.rocblas_create_handle(byref(handle)) == 0
    given_type, result_type, total_type = numbers

    def matrix(array: Array, kind: int) -> tuple[object, ...]:
        rows = array.shape[2]
        return c_void_p(array.ctypes.data), c_int(kind), c_int(rows), c_int64(array[0].size)

    status = library.rocblas_gemm_strided_batched_ex(
        handle,
        *(c_int(112 if turned else 111) for turned in (turn_a, turn_b)),
        *map(c_int, (m, n, k)),
        c_void_p(alpha.ctypes.data),
        *matrix(a, given_type),
        *matrix(b, given_type),
        c_void_p(beta.ctypes.data),
        *matrix(c, result_type),
        *matrix(d, result_type),
        *map(c_int, (batches, total_type, 0, 0)),
        ctypes.c_uint(0),
    )
    assert status == 0
    left, right = a.astype(np.int64), b.astype(np.int64)
    product = np.einsum(
        f"z{'mk' if turn_a else 'km'},z{'kn' if turn_b else 'nk'}->znm", left, right
    )
    np.testing.assert_array_equal(d.astype(np.int64), 2 * product + 3 * c.astype(np.int64))
    assert library.rocblas_destroy_handle(handle) == 0
    assert library.standinHandles() == 0


def test_the_workspace_is_as_large_as_the_greediest_product_asks(standin: Standin) -> None:
    """The stand-in asks for 8 bytes a result, writes them, and refuses a smaller workspace."""
    pytest.importorskip("convfind_backend_hip", reason="the HIP backend is not installed")
    from convfind.solver.recipe import LibraryGemm, Matrix, Memory
    from convfind.types import DataType
    from convfind_backend_hip.device import HipDevice
    from convfind_backend_hip.memory import HipBuffer
    from convfind_backend_hip.rocblas import RocBlas

    assert standin.count("bytes") == 0
    with convfind.open("hip:0") as handle:
        device = handle.session.device
        assert isinstance(device, HipDevice)
        sizes = []

        def allocate(size: int) -> HipBuffer:
            sizes.append(size)
            return device.allocate(size)

        library = RocBlas(device.stream, allocate)
        for side, most in ((2, 32), (4, 128), (3, 128)):
            rows, columns, result = (
                Matrix(memory, DataType.FLOAT32, side) for memory in (Memory.X, Memory.W, Memory.Y)
            )
            product = library.product(LibraryGemm(side, side, side, rows, columns, result))
            assert sizes[-1] == most
            a = np.arange(side * side, dtype=np.float32).reshape(side, side)
            given, got = device.upload(a), device.allocate(a.nbytes)
            product(given.address, given.address, got.address)
            c = np.empty_like(a)
            device.read(got, c)
            np.testing.assert_array_equal(c, a @ a)
        assert sizes == [32, 128]
        library.close()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("a", "b", "more"),
    [
        ((4, 6, 19, 8), (4, 6, 8, 19), {"alpha": 0.125}),
        ((2, 9, 17), (2, 17, 12), {"strides": {"a": (153, 1, 9), "b": (204, 1, 17)}}),
        ((3, 5, 33), (33, 6), {}),
        ((7, 33), (3, 33, 6), {}),
        ((4, 0), (0, 5), {}),
    ],
    ids=str,
)
def test_products_of_matrices_are_the_librarys(
    standin: Standin, dtype: str, a: tuple[int, ...], b: tuple[int, ...], more: dict[str, Any]
) -> None:
    pytest.importorskip("convfind_backend_hip", reason="the HIP backend is not installed")
    operators = pytest.importorskip("convfind_operators")
    from convfind_operators.testing import assert_operator

    assert standin.root
    problem = operators.MatMulProblem(a=a, b=b, dtype=dtype, **more)
    with convfind.open("hip:0") as handle:
        device = handle.session.device
        solver = operators.solver_of(problem, device.target)
        assert solver.solver_id == f"operators-matmul{'-library' if problem.k else ''}"
        assert_operator(problem, device)
