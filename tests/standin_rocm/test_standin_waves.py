"""Barriers, local memory, shuffles, votes and matrix instructions of the stand-in."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from standin import Standin
from standin_kernels import Array, HipError, run

WAVES = [pytest.param("gfx90a", 64, id="wave64"), pytest.param("gfx1030", 32, id="wave32")]


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    arch = "gfx90a"
    if "arch" in request.fixturenames:
        arch = request.getfixturevalue("arch")
    monkeypatch.setenv("STANDIN_DEVICES", arch)


def test_a_group_sums_through_local_memory() -> None:
    source = """
    template <int SIZE> __device__ float total(const float *x) {
      __shared__ float tile[SIZE];
      tile[threadIdx.x] = x[blockIdx.x * SIZE + threadIdx.x];
      __syncthreads();
      for (int half = SIZE / 2; half; half /= 2) {
        if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];
        __syncthreads();
      }
      return tile[0];
    }
    extern "C" __global__ void __launch_bounds__(256) sums(const float *x, float *y) {
      const float sum = total<256>(x);
      if (threadIdx.x == 0) y[blockIdx.x] = sum;
    }"""
    x = np.arange(1024, dtype=np.float32)
    _, y = run(source, "sums", x, np.zeros(4, np.float32), grid=4, block=256)
    np.testing.assert_array_equal(y, x.reshape(4, 256).sum(axis=1))


def test_local_memory_of_a_launch() -> None:
    source = """
    extern "C" __global__ void reversed(int *x) {
      extern __shared__ int tile[];
      tile[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
    }"""
    x = np.arange(64, dtype=np.int32)
    (y,) = run(source, "reversed", x, lds=x.nbytes)
    np.testing.assert_array_equal(y, x[::-1])


def test_local_memory_begins_undefined() -> None:
    source = """
    extern "C" __global__ void peek(float *y) {
      __shared__ float tile[64];
      if (y[0] > 1e9f) tile[threadIdx.x] = 1;
      y[threadIdx.x] = tile[threadIdx.x];
    }"""
    (y,) = run(source, "peek", np.zeros(64, np.float32), grid=2)
    assert np.isnan(y).all()


@pytest.mark.parametrize(("arch", "wave"), WAVES)
def test_shuffles(arch: str, wave: int) -> None:
    source = """
    extern "C" __global__ void shuffle(int *y) {
      const int own = threadIdx.x, n = blockDim.x;
      y[own] = __shfl_xor(own, 5);
      y[n + own] = __shfl_down(own, 3);
      y[2 * n + own] = __shfl_up(own, 3, 16);
      y[3 * n + own] = __shfl(own, 9);
      y[4 * n + own] = warpSize;
    }"""
    (y,) = run(source, "shuffle", np.zeros((5, 128), np.int32), arch=arch, block=128)
    own = np.arange(128)
    np.testing.assert_array_equal(y[0], own ^ 5)
    np.testing.assert_array_equal(y[1], np.where(own % wave + 3 < wave, own + 3, own))
    np.testing.assert_array_equal(y[2], np.where(own % 16 >= 3, own - 3, own))
    np.testing.assert_array_equal(y[3], own // wave * wave + 9)
    assert (y[4] == wave).all()


@pytest.mark.parametrize(("arch", "wave"), WAVES)
def test_votes(arch: str, wave: int) -> None:
    source = """
    extern "C" __global__ void vote(unsigned long long *y) {
      y[threadIdx.x] = __ballot(threadIdx.x % 3 == 0) + (__any(threadIdx.x == 70) ? 1ull << 1 : 0)
        + (__all(threadIdx.x < 96) ? 0 : 1ull << 4);
    }"""
    (y,) = run(source, "vote", np.zeros(128, np.uint64), arch=arch, block=128)
    for number, found in enumerate(y):
        first = number // wave * wave
        items = range(first, first + wave)
        ballot = sum(1 << (item - first) for item in items if item % 3 == 0)
        outside = 16 if items[-1] >= 96 else 0
        assert int(found) == ballot + (2 if 70 in items else 0) + outside


def test_a_barrier_that_some_items_miss(standin: Standin) -> None:
    source = 'extern "C" __global__ void miss(int *y) { if (threadIdx.x < 3) __syncthreads(); }'
    with pytest.raises(HipError, match="hipErrorLaunchFailure"):
        run(source, "miss", np.zeros(1, np.int32))
    assert "barrier" in standin.reason()


def test_a_wave_operation_that_some_lanes_miss(standin: Standin) -> None:
    source = """
    extern "C" __global__ void miss(int *y) {
      if (threadIdx.x < 3) y[threadIdx.x] = __shfl(1, 0);
      __syncthreads();
    }"""
    with pytest.raises(HipError, match="hipErrorLaunchFailure"):
        run(source, "miss", np.zeros(64, np.int32))
    assert "__shfl" in standin.reason()


# Name, M, blocks, K, numbers in a lane's operand, their type in HIP and in NumPy.
MFMA = [
    ("f32_32x32x1f32", 32, 2, 1, 1, "float", np.float32),
    ("f32_32x32x2f32", 32, 1, 2, 1, "float", np.float32),
    ("f32_16x16x4f32", 16, 1, 4, 1, "float", np.float32),
    ("f32_16x16x1f32", 16, 4, 1, 1, "float", np.float32),
    ("f32_32x32x8f16", 32, 1, 8, 4, "_Float16", np.float16),
    ("f32_16x16x16f16", 16, 1, 16, 4, "_Float16", np.float16),
    ("f32_32x32x4bf16", 32, 1, 4, 2, "short", ml_dtypes.bfloat16),
    ("f32_16x16x8bf16", 16, 1, 8, 2, "short", ml_dtypes.bfloat16),
    ("f32_32x32x8bf16_1k", 32, 1, 8, 4, "short", ml_dtypes.bfloat16),
    ("f32_16x16x16bf16_1k", 16, 1, 16, 4, "short", ml_dtypes.bfloat16),
    ("i32_32x32x8i8", 32, 1, 8, 4, "signed char", np.int8),
    ("i32_16x16x16i8", 16, 1, 16, 4, "signed char", np.int8),
]


@pytest.mark.parametrize(
    ("name", "m", "blocks", "k", "count", "element", "dtype"), MFMA, ids=[row[0] for row in MFMA]
)
def test_matrix_instructions(
    name: str, m: int, blocks: int, k: int, count: int, element: str, dtype: type
) -> None:
    total = "int" if name.startswith("i32") else "float"
    results = m * m * blocks // 64
    word = "int" if element == "signed char" else "operand"
    operand = f"{element} __attribute__((ext_vector_type({count})))" if count > 1 else element
    source = f"""
    typedef {element} operand {operand.removeprefix(element)};
    typedef {total} result __attribute__((ext_vector_type({results})));
    extern "C" __global__ void product(const {word} *a, const {word} *b, {total} *c) {{
      result sum;
      for (int e = 0; e < {results}; ++e) sum[e] = c[threadIdx.x * {results} + e];
      sum = __builtin_amdgcn_mfma_{name}(a[threadIdx.x], b[threadIdx.x], sum, 0, 0, 0);
      for (int e = 0; e < {results}; ++e) c[threadIdx.x * {results} + e] = sum[e];
    }}"""
    random = np.random.default_rng(5)
    # [block, row or column, k], small whole numbers: sums are exact.
    left, right = random.integers(-4, 5, (2, blocks, m, k)).astype(dtype)
    addend: Array = np.arange(64 * results, dtype=np.int32 if total == "int" else np.float32)
    addend = addend.reshape(64, results)
    _, _, c = run(source, "product", _by_lane(left, count), _by_lane(right, count), addend)
    products = np.einsum("bik,bjk->bij", left.astype(np.int64), right.astype(np.int64))
    for lane in range(64):
        for e in range(results):
            block, inside = divmod(e, m * m // 64)
            rows_of_a_turn = 64 // m  # lanes side by side in a row take 4 rows each
            row = inside // 4 * 4 * rows_of_a_turn + 4 * (lane // m) + inside % 4
            assert c[lane, e] - addend[lane, e] == products[block, row, lane % m]


def _by_lane(matrix: Array, count: int) -> Array:
    """[block, row, k] as what each lane holds."""
    blocks, m, k = matrix.shape
    by_turn = matrix.reshape(blocks, m, k // count, count)
    return np.ascontiguousarray(by_turn.transpose(2, 0, 1, 3)).reshape(64, count)
