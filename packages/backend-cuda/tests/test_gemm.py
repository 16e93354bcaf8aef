"""The GEMM fallback: which types and matrices it takes, and products of float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import convfind_backend_cuda
from convfind.checking.random_data import random_data
from convfind.checking.reference import reference_convolution
from convfind.device.model import DeviceModel
from convfind.device.target import DeviceKind, Target
from convfind.finddb import FindDb
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import InvokeArgs
from convfind.solver import Solver
from convfind.solver.applicability import Rejected
from convfind.solver.recipe import Launch, LibraryGemm
from convfind.testing.mock_backend import MockDevice
from convfind.types import DataType, Direction

TARGET = Target(
    *("cuda", "a gpu", DeviceKind.GPU, "NVIDIA", "CUDA", "sm_90", 132, "1"),
    features=frozenset({"cublas", "fp64"}),
    max_work_group=1024,
)


def solver(word: str) -> Solver:
    found = default_registry().find_solver(f"cuda-gemm-{word}")
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("way", list(Direction))
def test_floating_types_have_a_solver_in_each_direction(
    dtype: str, size: int, way: Direction
) -> None:
    problem = ConvProblem.forward(x=(2, 6, 5, 5), w=(8, 6, size, size), dtype=dtype)
    word = "pointwise" if size == 1 else "im2col"
    assert solver(f"{word}-{way.short}").takes(problem.with_direction(way), TARGET)


@pytest.mark.parametrize(
    ("channels", "size", "layout", "width", "is_taken"),
    [
        (8, 1, "NHWC", 5, True),
        (6, 1, "NHWC", 5, False),  # rows of 6 bytes
        (8, 3, "NHWC", 5, True),
        (4, 3, "NHWC", 5, True),
        (3, 3, "NHWC", 5, False),
    ],
)
def test_int8_wants_rows_of_whole_words(
    channels: int, size: int, layout: str, width: int, is_taken: bool
) -> None:
    problem = ConvProblem.forward(
        x=(2, channels, width, width), w=(8, channels, size, size), dtype="int8", layout=layout
    )
    one = solver(("pointwise" if size == 1 else "im2col") + "-fwd")
    answer = one.takes(problem, TARGET)
    assert bool(answer) == is_taken
    if isinstance(answer, Rejected):
        assert answer.reason is Reason.CHANNELS
        assert "multiples of 4 bytes" in answer.detail


def test_times_are_expected_as_they_were_measured() -> None:
    h200 = Target(
        *("cuda", "NVIDIA H200", DeviceKind.GPU, "NVIDIA", "CUDA", "sm_90", 132, "1"),
        features=TARGET.features,
        max_work_group=1024,
    )
    peak = DeviceModel.of(h200).flops * h200.compute_units
    shipped = Path(convfind_backend_cuda.__file__).parent / "databases" / "h200-cuda.lmdb"
    errors = []
    with FindDb.open(None, [shipped]) as database:
        for problem in resnet_layers():
            stored = database.lookup(h200, problem)
            for record in () if stored is None else stored.entry.records:
                if record.solver.startswith("cuda-gemm-"):
                    index = default_registry().solver(record.solver).wti(problem, h200)
                    assert index is not None
                    expected_ms = 1e3 * problem.flops / (index * peak)
                    errors.append(math.log(record.time_ms / expected_ms))
    assert len(errors) > 100
    assert abs(np.median(errors)) < math.log(1.25)
    quarter, most = np.quantile(np.abs(errors), [0.75, 0.98])
    assert quarter < math.log(1.7)
    assert most < math.log(4)


@pytest.mark.parametrize("size", [1, 3])
def test_int8_wants_sums_along_rows(size: int) -> None:
    # cuBLAS 13 on an H200: not supported where channels come first, unless 16 rows or columns
    # at most are left.
    problem = ConvProblem.forward(
        x=(2, 12, 30, 8), w=(48, 12, size, size), padding=size // 2, dtype="int8"
    )
    answer = solver(("pointwise" if size == 1 else "im2col") + "-fwd").takes(problem, TARGET)
    assert isinstance(answer, Rejected)
    assert "along rows" in answer.detail


def test_small_sums_take_a_call_each() -> None:
    # 32 products of single numbers: 0.78 ms on an H200
    layer = ConvProblem.forward(x=(32, 672, 1, 1), w=(28, 672, 1, 1))
    index = solver("pointwise-bwd-weights").wti(
        layer.with_direction(Direction.BACKWARD_WEIGHTS), TARGET
    )
    assert index is not None
    peak = DeviceModel.of(TARGET).flops * TARGET.compute_units
    assert 0.4e-3 < layer.flops / (index * peak) < 1.2e-3


def resnet_layers() -> Iterator[ConvProblem]:
    """Yield most of ResNet-50's layers at batch 64 in each direction and layout."""
    for width, size in (56, 64), (28, 128), (14, 256), (7, 512):
        for c, k, filter_size in (4 * size, size, 1), (size, 4 * size, 1), (size, size, 3):
            for layout in "NCHW", "NHWC":
                for tf32 in False, True:
                    layer = ConvProblem.forward(
                        x=(64, c, width, width),
                        w=(k, c, filter_size, filter_size),
                        padding=filter_size // 2,
                        layout=layout,
                        allow_tf32=tf32,
                    )
                    yield from (layer.with_direction(way) for way in Direction)


def test_sums_over_images_one_after_the_other_are_expected_to_be_slow() -> None:
    one = solver("pointwise-bwd-weights")

    def index(layout: str) -> float:
        problem = ConvProblem.forward(x=(64, 64, 56, 56), w=(64, 64, 1, 1), layout=layout)
        found = one.wti(problem.with_direction(Direction.BACKWARD_WEIGHTS), TARGET)
        assert found is not None
        return found

    assert 10 * index("NCHW") < index("NHWC")  # 64 products that wait for each other, and one


def test_columns_of_float64_are_added_up_in_float64() -> None:
    problem = ConvProblem.forward(x=(2, 6, 5, 5), w=(8, 6, 3, 3), dtype="float64")
    steps = (
        solver("im2col-bwd-data")
        .solution(problem.with_direction(Direction.BACKWARD_DATA), TARGET)
        .steps
    )
    (gemm,) = (step for step in steps if isinstance(step, LibraryGemm))
    (gathering,) = (step for step in steps if isinstance(step, Launch))
    assert gemm.c.dtype is DataType.FLOAT64
    defines = dict(gathering.kernel.program.defines)
    assert (defines["DTYPE"], defines["CF_ARITHMETIC"]) == ("FLOAT64", "FLOAT64")


@pytest.mark.parametrize("way", list(Direction))
def test_products_of_float64_are_the_convolution(way: Direction) -> None:
    problem = ConvProblem.forward(x=(2, 6, 5, 5), w=(8, 6, 1, 1), dtype="float64", layout="NHWC")
    problem = problem.with_direction(way)
    reads = random_data(problem, 1)
    device = MockDevice(TARGET)
    buffers = {
        name: device.upload(np.ascontiguousarray(array))
        for name, array in zip(way.reads, reads, strict=True)
    }
    buffers[way.writes] = device.allocate(problem.nbytes(way.writes))
    steps = solver(f"pointwise-{way.short}").solution(problem, TARGET).steps
    device.invoker(steps, {})(InvokeArgs(**buffers))
    expected = reference_convolution(problem, *reads)
    result = np.empty(expected.shape, np.float64)
    device.read(buffers[way.writes], result)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_matrices_that_an_int_does_not_count_are_refused() -> None:
    problem = ConvProblem.forward(x=(1, 1, 2**16, 2**16), w=(1, 1, 1, 1))
    answer = solver("pointwise-fwd").takes(problem, TARGET)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.SIZE_LIMIT
