"""Batch norms, products and sums with constants become weights and biases."""

from __future__ import annotations

import numpy as np
import pytest
from networks_for_tests import assert_same_results, graph_of

from convfind_networks import Graph, GraphBuilder, TensorType, Value
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BatchNorm,
    Binary,
    BinaryFunction,
    Convolution,
    Epilogue,
    Geometry,
    GroupNorm,
    Linear,
    MatMul,
    Transpose,
)
from convfind_networks.passes import fold_scales, remove_dead_code

RNG = np.random.default_rng(0)
RELU = Activate(Activation(ActivationKind.RELU))


def constant(b: GraphBuilder, *shape: int, positive: bool = False) -> Value:
    data = RNG.standard_normal(shape)
    return b.constant(np.abs(data) + 0.5 if positive else data, np.float32)


def norm(b: GraphBuilder, x: Value, channels: int) -> Value:
    parameters = [constant(b, channels) for _ in range(3)]
    return b.add(BatchNorm(1e-3), x, *parameters, constant(b, channels, positive=True))


def folded(graph: Graph) -> Graph:
    result = remove_dead_code(fold_scales(graph))
    assert_same_results(graph, result)
    return result


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("geometry", "w"),
    [
        (Geometry((1, 1), (1, 1), (1, 1), (1, 1)), (6, 4, 3, 3)),
        (Geometry((2, 1), (0, 1), (1, 0), (1, 2), groups=2), (6, 2, 3, 2)),
        (Geometry((2, 2), (1, 1), (1, 1), (1, 1), 2, True, (1, 0)), (4, 3, 3, 3)),
    ],
    ids=["plain", "grouped", "transposed"],
)
def test_a_batch_norm_becomes_weights_and_bias(
    geometry: Geometry, w: tuple[int, ...], bias: bool
) -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        more = [constant(b, 6)] * bias
        y = b.add(Convolution(geometry, Epilogue(bias=bias)), x, constant(b, *w), *more)
        return norm(b, y, 6)

    result = folded(graph_of(make, (2, 4, 7, 8)))
    (node,) = result.nodes
    assert isinstance(node.op, Convolution)
    assert node.op.epilogue == Epilogue(bias=True)


def test_all_that_scales_and_shifts_channels_folds_in_a_row() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = b.add(Convolution(Geometry.plain(2)), x, constant(b, 6, 4, 1, 1))
        y = b.add(Binary(BinaryFunction.MUL), y, constant(b, 6, 1, 1))
        y = b.add(Binary(BinaryFunction.SUB), constant(b, 1, 6, 1, 1), y)
        y = b.add(Binary(BinaryFunction.DIV), y, constant(b, 1, positive=True))
        y = norm(b, y, 6)
        return b.add(Binary(BinaryFunction.ADD), constant(b, 6, 1, 1), y)

    (node,) = folded(graph_of(make, (2, 4, 5, 5))).nodes
    assert node.op == Convolution(Geometry.plain(2), Epilogue(bias=True))


def test_a_linear_layer_takes_scales_along_its_last_dimension() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = b.add(Linear(), x, constant(b, 5, 4))
        y = b.add(Binary(BinaryFunction.MUL), y, constant(b, 5))
        return b.add(Binary(BinaryFunction.ADD), y, constant(b, 1, 5))

    (node,) = folded(graph_of(make, (2, 3, 4))).nodes
    assert node.op == Linear(Epilogue(bias=True))


def test_a_batch_norm_takes_scales_as_well() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = norm(b, x, 4)
        y = b.add(Binary(BinaryFunction.MUL), y, constant(b, 4, 1, 1))
        return b.add(Binary(BinaryFunction.ADD), y, constant(b, 4, 1, 1))

    (node,) = folded(graph_of(make, (2, 4, 5, 5))).nodes
    assert node.op == BatchNorm(1e-3)


def test_statistics_of_a_batch_norm_that_is_left_become_its_scale_and_bias() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.add(RELU, norm(b, b.add(RELU, x), 4))

    _, node, _ = folded(graph_of(make, (2, 4, 5, 5))).nodes
    assert node.op == BatchNorm(1e-3)
    assert len(node.inputs) == 3


def test_statistics_of_16_bits_are_not_rounded_again() -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType(np.dtype(np.float16), (2, 4, 5, 5)))
    parameters = [b.constant(RNG.uniform(0.5, 1.5, 4), np.float16) for _ in range(4)]
    (node,) = fold_scales(b.graph({"y": b.add(BatchNorm(), x, *parameters)})).nodes
    assert len(node.inputs) == 5


@pytest.mark.parametrize("behind", [False, True], ids=["alone", "behind a convolution"])
def test_a_norm_that_divides_by_zero_stays_as_it_is(behind: bool) -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType(np.dtype(np.float32), (2, 4, 5, 5)))
    if behind:
        x = b.add(Convolution(Geometry.plain(2)), x, constant(b, 4, 4, 3, 3))
    parameters = [constant(b, 4) for _ in range(3)]
    zero = b.constant(np.zeros(4), np.float32)
    graph = fold_scales(b.graph({"y": b.add(BatchNorm(0.0), x, *parameters, zero)}))
    assert graph.nodes[-1].op == BatchNorm(0.0)
    assert len(graph.nodes[-1].inputs) == 5


def test_constants_of_another_type_are_folded_in_the_type_of_values() -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType(np.dtype(np.float32), (2, 4, 5, 5)))
    parameters = [b.constant(RNG.uniform(0.5, 1.5, 4), np.float16) for _ in range(4)]
    graph = fold_scales(b.graph({"y": b.add(BatchNorm(), x, *parameters)}))
    _, *names = graph.nodes[0].inputs
    assert [graph.values[name].type.dtype for name in names] == [np.float32] * 2


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_group_norm_takes_scales_as_well(groups: int) -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = b.add(GroupNorm(groups, 1e-3), x, constant(b, 4), constant(b, 4))
        y = b.add(Binary(BinaryFunction.MUL), y, constant(b, 4, 1, 1))
        return b.add(Binary(BinaryFunction.ADD), y, constant(b, 4, 1, 1))

    (node,) = folded(graph_of(make, (2, 4, 5, 5))).nodes
    assert node.op == GroupNorm(groups, 1e-3)


def unfoldable(b: GraphBuilder, x: Value, case: str) -> Value | dict[str, Value]:
    relu = Activation(ActivationKind.RELU)
    weights = constant(b, 4, 4, 1, 1)
    conv = Convolution(Geometry.plain(2), Epilogue(activation=relu if case == "epilogue" else None))
    y = b.add(conv, x, weights)
    if case == "read twice":
        return {"y": norm(b, y, 4), "z": b.add(Activate(relu), y)}
    if case == "output":
        return {"y": norm(b, y, 4), "z": y}
    if case == "rows":
        return b.add(Binary(BinaryFunction.MUL), y, constant(b, 5, 1))
    if case == "computed":
        return b.add(Binary(BinaryFunction.MUL), y, x)
    if case == "grows":
        return b.add(Binary(BinaryFunction.MUL), y, constant(b, 3, 1, 4, 1, 1))
    if case == "divided by":
        return b.add(Binary(BinaryFunction.DIV), constant(b, 4, 1, 1), y)
    return norm(b, y, 4)


@pytest.mark.parametrize(
    "case",
    ["epilogue", "read twice", "output", "rows", "computed", "grows", "divided by"],
)
def test_what_is_another_result_stays(case: str) -> None:
    graph = graph_of(lambda b, x: unfoldable(b, x, case), (2, 4, 5, 5))
    assert len(folded(graph).nodes) == len(graph.nodes)


def test_a_bias_goes_below_a_residual_and_a_scale_does_not() -> None:
    def make(function: BinaryFunction) -> Graph:
        def inner(b: GraphBuilder, x: Value, z: Value) -> Value:
            op = Convolution(Geometry.plain(2), Epilogue(residual=True))
            y = b.add(op, x, constant(b, 4, 4, 1, 1), z)
            return b.add(Binary(function), y, constant(b, 4, 1, 1))

        return graph_of(inner, (2, 4, 5, 5), (2, 4, 5, 5))

    assert len(folded(make(BinaryFunction.ADD)).nodes) == 1
    assert len(folded(make(BinaryFunction.MUL)).nodes) == 2


def scaled_attention(b: GraphBuilder, q: Value, k: Value) -> Value:
    """Return scores as models spell them out: factors before the product, and behind it."""
    mul, div = (Binary(one) for one in (BinaryFunction.MUL, BinaryFunction.DIV))
    left = b.add(mul, b.constant(0.5, np.float32), b.add(RELU, q))
    right = b.add(mul, b.add(Transpose((0, 2, 1)), k), b.constant([0.75], np.float32))
    scores = b.add(div, b.add(MatMul(), left, right), b.constant([[[8.0]]], np.float32))
    return b.add(RELU, b.add(mul, scores, b.constant(3.0, np.float32)))


def test_factors_of_a_product_are_one() -> None:
    result = folded(graph_of(scaled_attention, (2, 5, 4), (2, 3, 4)))
    ops = [node.op for node in result.nodes]
    assert ops == [RELU, Transpose((0, 2, 1)), MatMul(alpha=0.5 * 0.75 / 8 * 3), RELU]


@pytest.mark.parametrize(
    "number",
    [[0.5, 1, 2, 4], [[0.5], [1], [2]], [[[0.5]], [[2]]]],
    ids=["columns", "rows", "batch"],
)
def test_products_take_no_more_than_one_number(number: list[object]) -> None:
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        product = b.add(MatMul(), x, y)
        return b.add(Binary(BinaryFunction.MUL), product, b.constant(number, np.float32))

    graph = graph_of(make, (2, 3, 5), (2, 5, 4))
    assert [node.op.kind for node in folded(graph).nodes] == ["MatMul", "Binary"]


@pytest.mark.parametrize("number", [1e-30, 1e30, 0.0, np.nan])
def test_products_take_no_number_with_which_sums_would_overflow(number: float) -> None:
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        scaled = b.add(Binary(BinaryFunction.MUL), x, b.constant(number, np.float32))
        product = b.add(MatMul(), scaled, y)
        return b.add(Binary(BinaryFunction.MUL), product, b.constant(number, np.float32))

    graph = graph_of(make, (3, 5), (5, 4))
    assert [node.op.kind for node in folded(graph).nodes] == ["Binary", "MatMul", "Binary"]


def test_shifted_products_and_operands_that_others_read_stay() -> None:
    def make(b: GraphBuilder, x: Value, y: Value) -> dict[str, Value]:
        half = b.add(Binary(BinaryFunction.MUL), x, b.constant(0.5, np.float32))
        product = b.add(MatMul(), half, y)
        return {
            "y": b.add(Binary(BinaryFunction.ADD), product, b.constant(0.5, np.float32)),
            "half": half,
        }

    graph = graph_of(make, (3, 5), (5, 4))
    assert [node.op.kind for node in folded(graph).nodes] == ["Binary", "MatMul", "Binary"]


def test_the_product_of_vectors_is_left_alone() -> None:
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        product = b.add(MatMul(), x, y)
        return b.add(Binary(BinaryFunction.MUL), product, b.constant(0.5, np.float32))

    assert len(folded(graph_of(make, (5,), (5,))).nodes) == 2
