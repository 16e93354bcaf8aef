"""ONNX Runtime's own operators compute what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from convfind_networks import Network, UnsupportedError, evaluate, optimize
from convfind_networks.from_onnx.operators import CONTRIBUTED

_DOMAIN = "com.microsoft"
_RANDOM = np.random.default_rng(0)


def _real(*shape: int) -> Any:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _whole(*shape: int, dtype: Any = np.uint8) -> Any:
    limits = np.iinfo(dtype)
    return _RANDOM.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _scaled(x: Any, scale: float, zero: int) -> tuple[Any, Any, Any]:
    return x, np.float32(scale), x.dtype.type(zero)


class Case(NamedTuple):
    """A call: its operator, its inputs (None where one is absent), and its attributes."""

    operator: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = {}  # noqa: RUF012 - never changed
    outputs: dict[int, Any] = {0: np.float32}  # noqa: RUF012 - by place, those that are read
    domain: str = _DOMAIN


_X, _W = _real(2, 4, 6, 5), _real(3, 4, 3, 3)
_A = _scaled(_whole(2, 4, 6, 6), 0.02, 120)
# Of 7 bits: with 8, ONNX Runtime's sums of two products saturate on CPUs without VNNI.
_ROWS, _MATRIX = _whole(3, 8), _whole(8, 5, dtype=np.int8) // 2
_TO = (np.float32(0.03), np.uint8(100))
_BYTES = {0: np.uint8}
_WORDS = _RANDOM.integers(0, 9, (2, 5), np.int32)
_TABLES = (_real(9, 8), _real(5, 8), _real(2, 8), _real(8), _real(8))
_HEADS = (_real(2, 5, 8), _real(8, 24), _real(24))
_SHOWN = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)

CASES = {
    "convolution": Case("FusedConv", (_X, _W, _real(3)), {"activation": "Relu", "pads": [1] * 4}),
    "convolution with all": Case(
        "FusedConv",
        (_X, _W, _real(3), _real(2, 3, 4, 3)),
        {"activation": "Clip", "activation_params": [-0.5, 1.5]},
    ),
    "leaky convolution": Case(
        "FusedConv", (_X, _W), {"activation": "LeakyRelu", "activation_params": [0.2]}
    ),
    "gemm": Case(
        "FusedGemm",
        (_real(3, 8), _real(5, 8), _real(5)),
        {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.1},
    ),
    "matmul": Case(
        "FusedMatMul", (_real(2, 8, 3), _real(2, 5, 8)), {"transA": 1, "transB": 1, "alpha": 0.3}
    ),
    "gelu": Case("Gelu", (_X,)),
    "gelu with bias": Case("BiasGelu", (_X, _real(5))),
    "fast gelu": Case("FastGelu", (_X, _real(5))),
    "quick gelu": Case("QuickGelu", (_X,), {"alpha": 1.5}),
    "skip": Case(
        "SkipLayerNormalization",
        (_real(2, 5, 8), _real(2, 5, 8), _real(8), _real(8), _real(8)),
        {"epsilon": 1e-5},
        {0: np.float32, 3: np.float32},
    ),
    "simplified skip": Case(
        "SkipSimplifiedLayerNormalization",
        (_real(2, 5, 8), _real(2, 5, 8), _real(8)),
        {},
        {0: np.float32, 3: np.float32},
    ),
    "embedding": Case(
        "EmbedLayerNormalization",
        (_WORDS, _WORDS % 2, *_TABLES, _SHOWN),
        {},
        {0: np.float32, 1: np.int32},
    ),
    "embedding without segments": Case(
        "EmbedLayerNormalization",
        (_WORDS, None, *_TABLES[:2], None, *_TABLES[3:]),
        {},
        {0: np.float32, 1: np.int32},
    ),
    "attention": Case("Attention", _HEADS, {"num_heads": 2}),
    "causal attention": Case("Attention", _HEADS, {"num_heads": 2, "unidirectional": 1}),
    "masked attention": Case("Attention", (*_HEADS, _SHOWN), {"num_heads": 4, "scale": 0.7}),
    "attention to nothing": Case(
        "Attention",
        (*_HEADS, np.array([[0] * 5, [0, 1, 0, 1, 1]], np.int32)),
        {"num_heads": 2, "mask_filter_value": -3.0},
    ),
    "causal attention to the last ones": Case(
        "Attention",
        (*_HEADS, _SHOWN[:, ::-1].copy()),
        {"num_heads": 2, "unidirectional": 1, "mask_filter_value": -30.0},
    ),
    "attention to lengths": Case(
        "Attention", (*_HEADS, np.array([2, 5], np.int32)), {"num_heads": 2}
    ),
    "attention of three": Case(
        "MultiHeadAttention",
        (_real(2, 5, 8), _real(2, 7, 8), _real(2, 7, 12), _real(28)),
        {"num_heads": 2, "scale": 0.6},
    ),
    "masked attention of three": Case(
        "MultiHeadAttention",
        (_real(2, 5, 8), _real(2, 3, 8), _real(2, 3, 8), None, _SHOWN[:, :3].copy()),
        {"num_heads": 4},
    ),
    "biased attention of three": Case(
        "MultiHeadAttention",
        (*(_real(2, 5, 8) for _ in range(3)), None, None, _real(2, 4, 5, 5)),
        {"num_heads": 4, "unidirectional": 1},
    ),
    "attention of three, to more keys": Case(
        "MultiHeadAttention",
        (_real(2, 3, 8), _real(2, 7, 8), _real(2, 7, 8)),
        {"num_heads": 2, "unidirectional": 1},
    ),
    "attention of three, to fewer keys": Case(
        "MultiHeadAttention",
        (_real(2, 6, 8), _real(2, 3, 8), _real(2, 3, 8)),
        {"num_heads": 2, "unidirectional": 1},
    ),
    "sum": Case("QLinearAdd", (*_A, *_scaled(_whole(4, 1, 1), 0.05, 90), *_TO), {}, _BYTES),
    "product": Case("QLinearMul", (*_A, *_scaled(_whole(2, 4, 6, 6), 0.01, 7), *_TO), {}, _BYTES),
    "sigmoid": Case("QLinearSigmoid", (*_A, np.float32(1 / 256), np.uint8(0)), {}, _BYTES),
    "leaky relu": Case("QLinearLeakyRelu", (*_A, *_TO), {"alpha": 0.2}, _BYTES),
    "softmax": Case("QLinearSoftmax", (*_A, *_TO), {"axis": -1, "opset": 13}, _BYTES),
    "softmax of axes": Case("QLinearSoftmax", (*_A, *_TO), {"axis": 2, "opset": 12}, _BYTES),
    "average": Case(
        "QLinearAveragePool",
        (*_A, *_TO),
        {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]},
        _BYTES,
    ),
    "global average": Case("QLinearGlobalAveragePool", (*_A, *_TO), {"channels_last": 0}, _BYTES),
    "global average, channels last": Case(
        "QLinearGlobalAveragePool", (*_A, *_TO), {"channels_last": 1}, _BYTES
    ),
    "concatenation": Case(
        "QLinearConcat", (*_TO, *_A, *_scaled(_whole(2, 1, 6, 6), 0.05, 90)), {"axis": 1}, _BYTES
    ),
    "quantised gemm": Case(
        "QGemm",
        (
            *_scaled(_ROWS, 0.02, 130),
            *(_MATRIX, np.full(5, 0.01, np.float32), np.zeros(5, np.int8)),
            *(_RANDOM.integers(-99, 99, 5, np.int32), *_TO),
        ),
        {},
        _BYTES,
    ),
    "quantised gemm to real numbers": Case(
        "QGemm",
        (*_scaled(_ROWS, 0.02, 130), *_scaled(_MATRIX.T.copy(), 0.01, 0)),
        {"transB": 1, "alpha": 0.5},
    ),
    "product to real numbers": Case(
        "MatMulIntegerToFloat",
        (_ROWS, _MATRIX, np.float32(0.02), np.float32(0.01), np.uint8(130), np.int8(3), _real(5)),
    ),
    "product with a scale for each column": Case(
        "QLinearMatMul",
        (
            *_scaled(_whole(2, 3, 8), 0.02, 130),
            *(_MATRIX, np.arange(1, 6, dtype=np.float32) / 99, np.zeros(5, np.int8)),
            *_TO,
        ),
        {},
        _BYTES,
        "",
    ),
    "product of real numbers": Case(
        "DynamicQuantizeMatMul", (_real(3, 8), _MATRIX, _real(5) ** 2, None, _real(5))
    ),
}  # fmt: skip


def _model(case: Case) -> onnx.ModelProto:
    names = [f"x{at}" if one is not None else "" for at, one in enumerate(case.inputs)]
    results = [f"y{at}" if at in case.outputs else "" for at in range(max(case.outputs) + 1)]
    node = helper.make_node(case.operator, names, results, domain=case.domain, **case.attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.asarray(one).dtype), np.shape(one)
            )
            for name, one in zip(names, case.inputs, strict=True)
            if one is not None
        ],
        [
            helper.make_tensor_value_info(
                f"y{at}", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None
            )
            for at, dtype in case.outputs.items()
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("name", CASES)
def test_operators(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    case = CASES[name]
    model = _model(case)
    inputs = {f"x{at}": np.asarray(x) for at, x in enumerate(case.inputs) if x is not None}
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    expected = session.run(None, inputs)
    graph = Network.from_onnx(model).graph()
    for made in (graph, optimize(graph)):
        results = evaluate(made, inputs).values()
        for got, want in zip(results, expected, strict=True):
            assert got.shape == want.shape
            step = 1 if want.dtype == np.uint8 else 2e-5  # it may round to a neighbour
            np.testing.assert_allclose(got.astype(float), want.astype(float), 2e-5, step)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_causal_attention_in_16_bits(dtype: Any) -> None:
    runtime = pytest.importorskip("onnxruntime")
    case = CASES["causal attention to the last ones"]
    x, weight, bias, shown = case.inputs
    short = tuple(one.astype(dtype) for one in (x, weight, bias))
    exact = tuple(one.astype(np.float32) for one in short)  # ONNX Runtime's CPU has no other
    model = _model(case._replace(inputs=(*exact, shown))).SerializeToString()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {f"x{at}": one for at, one in enumerate((*exact, shown))})
    inputs = {f"x{at}": one for at, one in enumerate((*short, shown))}
    graph = Network.from_onnx(
        _model(case._replace(inputs=(*short, shown), outputs={0: dtype}))
    ).graph()
    for made in (graph, optimize(graph)):
        (got,) = evaluate(made, inputs).values()
        np.testing.assert_allclose(got, want, 2e-5, 2e-5)


def test_every_operator_has_a_case() -> None:
    aliases = {"TransposeMatMul", "GridSample", "Trilu", "QuantizeLinear", "DequantizeLinear"}
    aliases |= {"QLinearWhere"}  # as QLinearConcat; ONNX Runtime has it for another device
    assert set(CONTRIBUTED) == aliases | {
        one.operator for one in CASES.values() if one.domain == _DOMAIN
    }


def test_a_layout_of_one_cpu_is_refused() -> None:
    model = _model(CASES["gelu"])
    model.graph.node[0].op_type, model.graph.node[0].domain = "Conv", "com.microsoft.nchwc"
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(UnsupportedError, match="save the optimised model at the level EXTENDED"):
        Network.from_onnx(model).graph()
