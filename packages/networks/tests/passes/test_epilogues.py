"""Residual sums and activations become part of the operation before them."""

from __future__ import annotations

from dataclasses import replace

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
)
from convfind_networks.passes import fuse_epilogues

NO_EPILOGUE = Epilogue()
RELU = Activation(ActivationKind.RELU)
RNG = np.random.default_rng(0)


def convolution(b: GraphBuilder, x: Value, epilogue: Epilogue = NO_EPILOGUE) -> Value:
    w = b.constant(RNG.standard_normal((4, 4, 3, 3)), np.float32)
    geometry = Geometry((1, 1), (1, 1), (1, 1), (1, 1))
    return b.add(Convolution(geometry, epilogue), x, w)


def plus(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.add(Binary(BinaryFunction.ADD), x, y)


def fused(graph: Graph) -> list[Epilogue]:
    """Fuse, hold the result to the same numbers, and return the epilogues that are there."""
    result = fuse_epilogues(graph)
    assert_same_results(graph, result)
    return [n.op.epilogue for n in result.nodes if isinstance(n.op, (Convolution, Linear))]


def left(graph: Graph) -> list[str]:
    return [node.op.kind for node in fuse_epilogues(graph).nodes]


def test_a_residual_block_is_two_convolutions() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = b.add(Activate(RELU), convolution(b, x))
        return b.add(Activate(RELU), plus(b, convolution(b, y), x))

    graph = graph_of(make, (1, 4, 5, 5))
    assert fused(graph) == [
        Epilogue(activation=RELU),
        Epilogue(residual=True, activation=RELU),
    ]
    assert left(graph) == ["Convolution"] * 2


def test_of_two_convolutions_the_later_one_adds() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        first, second = convolution(b, x), convolution(b, x)
        return plus(b, second, first)

    assert fused(graph_of(make, (1, 4, 5, 5))) == [Epilogue(), Epilogue(residual=True)]


def test_a_sum_with_what_comes_later_waits_for_it() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = convolution(b, x)
        later = b.add(Activate(Activation(ActivationKind.TANH)), x)
        return plus(b, y, later)

    graph = graph_of(make, (1, 4, 5, 5))
    assert fused(graph) == [Epilogue(residual=True)]
    assert left(graph) == ["Activate", "Convolution"]


@pytest.mark.parametrize("kind", list(ActivationKind))
def test_every_activation_fuses(kind: ActivationKind) -> None:
    activation = Activation(kind)
    graph = graph_of(lambda b, x: b.add(Activate(activation), convolution(b, x)), (1, 4, 5, 5))
    assert fused(graph) == [Epilogue(activation=activation)]


def test_a_sum_behind_an_activation_comes_last() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        return plus(b, b.add(Activate(RELU), convolution(b, x)), x)

    graph = graph_of(make, (1, 4, 5, 5))
    assert fused(graph) == [Epilogue(residual=True, activation=RELU, residual_last=True)]
    assert left(graph) == ["Convolution"]


def test_behind_such_a_sum_no_convolution_takes_more() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = plus(b, x, b.add(Activate(RELU), convolution(b, x)))
        return plus(b, b.add(Activate(RELU), y), x)

    graph = graph_of(make, (1, 4, 5, 5))
    assert fused(graph) == [Epilogue(residual=True, activation=RELU, residual_last=True)]
    assert left(graph) == ["Convolution", "Binary"]


def test_a_second_activation_and_a_second_residual_stay() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = plus(b, plus(b, convolution(b, x), x), x)
        tanh = Activation(ActivationKind.TANH)
        return b.add(Activate(tanh), b.add(Activate(RELU), convolution(b, y)))

    assert left(graph_of(make, (1, 4, 5, 5))) == [
        "Convolution",
        "Binary",
        "Convolution",
        "Activate",
    ]


def test_what_somebody_else_reads_is_not_fused() -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        y = convolution(b, x)
        return {"y": b.add(Activate(RELU), y), "z": plus(b, y, y)}

    assert left(graph_of(make, (1, 4, 5, 5))) == ["Convolution", "Activate", "Binary"]


def test_a_sum_that_grows_the_result_is_no_residual() -> None:
    graph = graph_of(lambda b, x, z: plus(b, convolution(b, x), z), (1, 4, 5, 5), (3, 4, 5, 5))
    assert left(graph) == ["Convolution", "Binary"]


def test_linear_layers_fuse_alike() -> None:
    def make(b: GraphBuilder, x: Value, z: Value) -> Value:
        w = b.constant(RNG.standard_normal((3, 4)), np.float32)
        return b.add(Activate(RELU), plus(b, z, b.add(Linear(), x, w)))

    graph = graph_of(make, (2, 4), (2, 3))
    assert fused(graph) == [Epilogue(residual=True, activation=RELU)]


@pytest.mark.parametrize("op", [Binary(BinaryFunction.MUL), Binary(BinaryFunction.ADD)])
def test_arithmetic_that_no_convolution_takes_in_takes_an_activation(op: Binary) -> None:
    graph = graph_of(lambda b, x, y: b.add(Activate(RELU), b.add(op, x, y)), *[(1, 4, 5, 5)] * 2)
    result = fuse_epilogues(graph)
    assert_same_results(graph, result)
    assert [node.op for node in result.nodes] == [replace(op, activation=RELU)]


def gated(graph: Graph) -> list[str]:
    """Fuse, hold the result to the same numbers, and return what is left in words."""
    result = fuse_epilogues(graph)
    assert_same_results(graph, result)
    return [str(node.op) for node in result.nodes]


@pytest.mark.parametrize("function", [BinaryFunction.ADD, BinaryFunction.SUB, BinaryFunction.MUL])
@pytest.mark.parametrize("at", [0, 1])
def test_a_gate_is_part_of_its_product(function: BinaryFunction, at: int) -> None:
    def make(b: GraphBuilder, *operands: Value) -> Value:
        inputs = list(operands)
        inputs[at] = b.add(Activate(Activation(ActivationKind.GELU)), inputs[at])
        return b.add(Binary(function), *inputs)

    for other in ((2, 3, 8), (3, 1)):
        shapes = [other, other]
        shapes[at] = (2, 3, 8)
        graph = graph_of(make, *shapes)
        assert gated(graph) == [f"Binary[{function}+gelu({'ab'[at]})]"]


def test_of_two_gates_one_is_part_of_the_product() -> None:
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        gates = b.add(Activate(RELU), x), b.add(Activate(Activation(ActivationKind.TANH)), y)
        return b.add(Activate(RELU), b.add(Binary(BinaryFunction.MUL), *gates))

    graph = graph_of(make, (2, 3), (2, 3))  # the activation behind comes first
    assert gated(graph) == ["Activate[relu]", "Activate[tanh]", "Binary[mul+relu]"]


def test_gates_that_are_repeated_or_read_twice_or_others_take_in_stay() -> None:
    sigmoid, mul = Activate(Activation(ActivationKind.SIGMOID)), Binary(BinaryFunction.MUL)

    def repeated(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.add(mul, x, b.add(sigmoid, y))  # of each channel, not of each element

    assert gated(graph_of(repeated, (1, 4, 5, 5), (1, 4, 1, 1))) == [str(sigmoid), "Binary[mul]"]

    def twice(b: GraphBuilder, x: Value, y: Value) -> dict[str, Value]:
        gate = b.add(sigmoid, y)
        return {"y": b.add(mul, x, gate), "gate": gate}

    assert gated(graph_of(twice, (2, 3), (2, 3))) == [str(sigmoid), "Binary[mul]"]

    def divided(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.add(Binary(BinaryFunction.DIV), b.add(sigmoid, x), y)

    assert gated(graph_of(divided, (2, 3), (2, 3))) == [str(sigmoid), "Binary[div]"]

    def convolved(b: GraphBuilder, x: Value) -> Value:
        return b.add(mul, x, b.add(sigmoid, convolution(b, x)))

    graph = graph_of(convolved, (1, 4, 5, 5))
    assert fused(graph) == [Epilogue(activation=sigmoid.activation)]
    assert left(graph) == ["Convolution", "Binary"]


def test_a_norm_takes_an_activation_and_no_second_one() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        numbers = [b.constant(np.arange(1, 5), np.float32) for _ in range(4)]
        y = b.add(Activate(RELU), b.add(BatchNorm(), x, *numbers))
        return b.add(Activate(Activation(ActivationKind.TANH)), y)

    graph = graph_of(make, (1, 4, 5, 5))
    assert_same_results(graph, fuse_epilogues(graph))
    assert left(graph) == ["BatchNorm", "Activate"]


def test_whole_numbers_keep_their_activation_apart() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(np.dtype(np.int32), (2, 3)))
    y = builder.add(Activate(RELU), plus(builder, x, x))
    assert left(builder.graph({"y": y})) == ["Binary", "Activate"]


def test_a_group_norm_takes_in_the_activation_behind_it() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        numbers = (b.constant(RNG.standard_normal(4), np.float32) for _ in range(2))
        return b.add(Activate(RELU), b.add(GroupNorm(2), x, *numbers))

    graph = graph_of(make, (2, 4, 5, 5))
    (node,) = fuse_epilogues(graph).nodes
    assert node.op == GroupNorm(2, activation=RELU)
    assert_same_results(graph, fuse_epilogues(graph))
