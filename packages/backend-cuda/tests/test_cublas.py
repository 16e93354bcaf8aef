"""Products of cuBLAS, and of cuBLASLt with an epilogue, as the backend calls them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cuda_standin
import numpy as np
import pytest
from cublas_standin import StandinBlas, standin_blas
from cuda_standin import StandinDriver

from convfind.checking.random_data import random_operands
from convfind.checking.reference import reference_convolution
from convfind.errors import LaunchError
from convfind.kit.composed import composed
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import InvokeArgs
from convfind.solver import Solver
from convfind.solver.applicability import Rejected
from convfind.solver.recipe import GemmEpilogue, Launch, LibraryGemm, Matrix
from convfind.types import DataType, Direction
from convfind_backend_cuda.device import CudaDevice

TARGET = replace(cuda_standin.TARGET, features=cuda_standin.TARGET.features | {"cublas"})
#: The word of cuBLASLt for each epilogue.
WORDS: dict[str, tuple[dict[str, Any], int]] = {
    "bias": ({"bias": True}, 4),
    "relu": ({"activation": "relu"}, 2),
    "relu-bias": ({"bias": True, "activation": "relu"}, 6),
    "gelu": ({"activation": "gelu-tanh"}, 32),
    "gelu-bias": ({"bias": True, "activation": "gelu-tanh"}, 36),
    "z": ({"add": True, "beta": -0.5}, 1),
    "z-bias-relu": ({"add": True, "beta": 2.0, "bias": True, "activation": "relu"}, 6),
    "unread z": ({"add": True, "beta": 0.0, "bias": True}, 4),
    "what lies there": ({"beta": 3.0, "bias": True, "activation": "relu"}, 6),
}


@pytest.fixture
def blas(driver: StandinDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandinBlas]:
    """Libraries over the host's memory in the place of NVIDIA's."""
    with standin_blas(driver, monkeypatch) as replaced:
        yield replaced


def solver(word: str) -> Solver:
    found = default_registry().find_solver(f"cuda-gemm-{word}")
    assert found is not None
    return found


def layer(size: int = 1, **fields: Any) -> ConvProblem:
    given: dict[str, Any] = {"layout": "NHWC", "alpha": 0.75, **fields}
    channels = 6 // given.get("groups", 1)
    return ConvProblem.forward(x=(2, 6, 5, 4), w=(8, channels, size, size), **given)


def product_of(problem: ConvProblem) -> LibraryGemm:
    (step,) = solver(f"pointwise-{problem.direction.short}").solution(problem, TARGET).steps
    assert isinstance(step, LibraryGemm)
    return step


def computed(device: CudaDevice, problem: ConvProblem) -> tuple[Any, Any]:
    """Run a pointwise problem's products; return the result, and the one that is expected."""
    operands = random_operands(problem, 3)
    (result,) = problem.writes
    shape = problem.tensor_layout(result).to_memory(problem.shape(result))
    before = np.full(shape, 0.25, problem.tensor_dtype(result).numpy)
    buffers = {
        name: device.upload(np.ascontiguousarray(array))
        for name, array in {**operands, result: before}.items()
    }
    steps = solver(f"pointwise-{problem.direction.short}").solution(problem, TARGET).steps
    device.invoker(steps, {})(InvokeArgs(**buffers))
    found = np.empty_like(before)
    device.read(buffers[result], found)
    first, second = (operands[name] for name in problem.direction.reads)
    added = operands.get("z", before)
    expected = reference_convolution(problem, first, second, added, operands.get("bias"))
    return found.astype(np.float64), expected


#: Epilogues inside by type; tf32 is float32 that may be rounded to TF32.
INSIDE = {
    "float32": {"bias", "relu", "relu-bias", "z", "z-bias-relu", "unread z", "what lies there"},
    "tf32": {"bias", "gelu", "gelu-bias", "z", "unread z"},
    "float16": {"bias", "gelu", "gelu-bias", "z", "unread z"},
    "bfloat16": {"bias", "gelu", "gelu-bias", "z", "unread z"},
}


def of_type(dtype: str, **fields: Any) -> ConvProblem:
    if dtype == "tf32":
        return layer(dtype="float32", allow_tf32=True, **fields)
    return layer(dtype=dtype, **fields)


@pytest.mark.parametrize("dtype", INSIDE)
@pytest.mark.parametrize("size", [1, 3])
def test_inside_is_what_keeps_the_promises(dtype: str, size: int) -> None:
    one = solver("pointwise-fwd" if size == 1 else "im2col-fwd")
    inside = set()
    for epilogue, (fields, _) in WORDS.items():
        problem = of_type(dtype, size=size, **fields)
        answer = one.takes(problem, TARGET)
        if answer:
            inside.add(epilogue)
        assert bool(composed(one).takes(problem, TARGET)) != bool(answer), "one of both takes it"
        if isinstance(answer, Rejected):
            assert answer.reason is Reason.EPILOGUE
    assert inside == INSIDE[dtype]


@pytest.mark.parametrize(
    ("dtype", "epilogue"), [(dtype, one) for dtype in INSIDE for one in sorted(INSIDE[dtype])]
)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("way", [Direction.FORWARD, Direction.BACKWARD_DATA])
def test_fused_products_are_the_fused_convolution(
    device: CudaDevice, blas: StandinBlas, dtype: str, epilogue: str, groups: int, way: Direction
) -> None:
    fields, word = WORDS[epilogue]
    problem = of_type(dtype, groups=groups, **fields).with_direction(way)
    found, expected = computed(device, problem)
    error = {"float16": 4e-3, "bfloat16": 3e-2}.get(dtype, 1e-5)
    np.testing.assert_allclose(found, expected, rtol=error, atol=error)
    assert blas.journal == [("fused", word, 0x50)]


@pytest.mark.parametrize("fields", [{"activation": "relu"}, {"add": True, "beta": 1.0}])
@pytest.mark.parametrize("groups", [1, 2])
def test_channels_first_are_fused_without_a_bias(
    device: CudaDevice, blas: StandinBlas, fields: dict[str, Any], groups: int
) -> None:
    problem = layer(layout="NCHW", groups=groups, **fields)
    found, expected = computed(device, problem)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert {kind for kind, *_ in blas.journal} == {"fused"}
    answer = solver("pointwise-fwd").takes(layer(layout="NCHW", bias=True, **fields), TARGET)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.EPILOGUE
    assert "channels come last" in answer.detail


def test_a_plain_product_stays_cublass(device: CudaDevice, blas: StandinBlas) -> None:
    forms: tuple[dict[str, Any], ...] = ({}, {"beta": -2.0}, {"layout": "NCHW", "groups": 2})
    for fields in forms:
        found, expected = computed(device, layer(**fields))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert set(blas.journal) == {("product", 0x50)}
    assert not blas.alignments


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"activation": "gelu-erf"}, "applies relu to such products"),
        ({"activation": "leaky"}, "applies relu to such products"),
        ({"activation": "relu", "dtype": "float16"}, "applies gelu-tanh to such products"),
        ({"bias": True, "beta": 1.0, "dtype": "bfloat16"}, "rounds such products before"),
        ({"dtype": "float64", "bias": True}, "for float32, float16, bfloat16"),
        (
            {"add": True, "beta": 1.0, "add_last": True, "activation": "relu"},
            "behind the activation",
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 3])
def test_anything_else_is_a_step_behind_the_product(
    fields: dict[str, Any], detail: str, size: int
) -> None:
    problem = layer(size, **fields)
    one = solver("pointwise-fwd" if size == 1 else "im2col-fwd")
    answer = one.takes(problem, TARGET)
    assert isinstance(answer, Rejected)
    assert detail in answer.detail
    assert composed(one).takes(problem, TARGET)
    *steps, last = composed(one).solution(problem, TARGET).steps
    assert all(step.epilogue is None for step in steps if isinstance(step, LibraryGemm))
    assert isinstance(last, Launch)
    assert last.kernel.entry == "epilogue_step"


def test_chunks_of_columns_add_what_lies_beside_them() -> None:
    problem = layer(3, bias=True, add=True, beta=0.5, activation="relu")
    one = solver("im2col-fwd")
    assert one.takes(problem, TARGET)
    least = one.workspace_size(problem, TARGET) // 3
    steps = one.solution(problem, TARGET, workspace_limit=least).steps
    gemms = [step for step in steps if isinstance(step, LibraryGemm)]
    assert len({gemm.c.offset for gemm in gemms}) == len(gemms) > 1
    assert all(
        gemm.epilogue
        == GemmEpilogue(Matrix("bias", DataType.FLOAT32, 8), replace(gemm.c, memory="z"), "relu")
        for gemm in gemms
    )
    way = Direction.BACKWARD_DATA
    assert isinstance(
        solver("im2col-bwd-data").takes(problem.with_direction(way), TARGET), Rejected
    )


def test_algorithms_are_asked_for_once_for_each_alignment(
    device: CudaDevice, blas: StandinBlas
) -> None:
    gemm = product_of(layer(bias=True))
    size = 4 * 1024
    buffers = {name: device.allocate(size) for name in ("x", "w", "y", "bias")}
    product = device.library().product(gemm)
    assert blas.alignments == [256], "before the first call"
    a, b, c, bias = (buffers[matrix.memory].address for matrix in gemm.matrices)
    for odd in (0, 16, 4, 16, 8, 4):
        product(a, b, c, bias + odd)
    product(a + 4, b, c, bias)
    assert blas.alignments == [256, 16, 4, 8]


def test_a_graph_holds_fused_products(device: CudaDevice, blas: StandinBlas) -> None:
    problem = layer(bias=True, activation="relu")
    operands = random_operands(problem, 5)
    buffers = {name: device.upload(np.ascontiguousarray(one)) for name, one in operands.items()}
    expected = reference_convolution(problem, operands["x"], operands["w"], None, operands["bias"])
    buffers["y"] = device.allocate(expected.size * 4)
    replayed = device.replayed([product_of(problem)] * 2, {})
    for _ in range(3):
        replayed(InvokeArgs(**buffers))
    found = np.empty(expected.shape, np.float32)
    device.read(buffers["y"], found)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert blas.journal == [("fused", 6, 0x50)] * 6
    assert blas.alignments == [256, 256], "nothing is asked for while steps are recorded"


def test_what_describes_a_product_goes_with_it(device: CudaDevice, blas: StandinBlas) -> None:
    library = device.library()
    before = set(blas.living)
    product = library.product(product_of(layer(bias=True)))
    assert len(blas.living - before) == 5
    del product
    gc.collect()
    assert blas.living == before


def test_a_product_without_an_algorithm_is_refused(device: CudaDevice, blas: StandinBlas) -> None:
    blas.refuses = True
    with pytest.raises(LaunchError, match=r"NOT_SUPPORTED.*use another solver"):
        device.library().product(product_of(layer(bias=True)))
    gc.collect()
    assert len(blas.living) == 1, "all but the library's handle is destroyed"


def test_other_solvers_keep_their_step() -> None:
    """The domain says what may be inside, so that composition covers exactly the rest."""
    for name in ("pointwise-bwd-weights", "im2col-bwd-data"):
        assert "activation" not in solver(name).domain.traits
