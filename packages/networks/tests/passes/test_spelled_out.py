"""Activations that models spell out become activations again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from networks_for_tests import assert_same_results, graph_of

from convfind_networks import Graph, GraphBuilder, Value, optimize
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    Binary,
    BinaryFunction,
    Convolution,
    Geometry,
    Unary,
    UnaryFunction,
)
from convfind_networks.passes import recognize_activations, remove_dead_code


class Words:
    """Spells formulas; ``swap`` exchanges the arguments of sums and products."""

    def __init__(self, builder: GraphBuilder, swap: bool) -> None:
        self.builder = builder
        self.swap = swap

    def _binary(self, function: BinaryFunction, a: Value, b: Value | float) -> Value:
        other = b if isinstance(b, Value) else self.builder.constant(b, a.dtype)
        pair = (a, other)
        if self.swap and function is not BinaryFunction.DIV:
            pair = (other, a)
        return self.builder.add(Binary(function), *pair)

    def times(self, a: Value, b: Value | float) -> Value:
        return self._binary(BinaryFunction.MUL, a, b)

    def plus(self, a: Value, b: Value | float) -> Value:
        return self._binary(BinaryFunction.ADD, a, b)

    def over(self, a: Value, b: float) -> Value:
        return self._binary(BinaryFunction.DIV, a, b)

    def bound(self, function: BinaryFunction, a: Value, b: float) -> Value:
        return self._binary(function, a, b)

    def act(self, kind: ActivationKind, x: Value, *numbers: float) -> Value:
        return self.builder.add(Activate(Activation(kind, numbers)), x)

    def unary(self, function: UnaryFunction, x: Value) -> Value:
        return self.builder.add(Unary(function), x)

    def relu6_of_plus_3(self, x: Value) -> Value:
        return self.act(ActivationKind.CLIP, self.plus(x, 3), 0, 6)

    def gelu_gate(self, x: Value) -> Value:
        return self.plus(self.unary(UnaryFunction.ERF, self.over(x, math.sqrt(2))), 1)

    def tanh_gate(self, x: Value, cube: Value) -> Value:
        inner = self.times(self.plus(x, self.times(cube, 0.044715)), math.sqrt(2 / math.pi))
        return self.plus(self.act(ActivationKind.TANH, inner), 1)


K = ActivationKind
EXP = UnaryFunction.EXP
Spelling = Callable[[Words, Value], Value]
SPELLINGS: list[tuple[str, ActivationKind, Spelling]] = [
    ("x * sigmoid(x)", K.SILU, lambda w, x: w.times(x, w.act(K.SIGMOID, x))),
    (
        "x * hard_sigmoid(x)",
        K.HARD_SWISH,
        lambda w, x: w.times(x, w.act(K.HARD_SIGMOID, x, 1 / 6, 0.5)),
    ),
    (
        "x * relu6(x + 3) / 6",
        K.HARD_SWISH,
        lambda w, x: w.over(w.times(x, w.relu6_of_plus_3(x)), 6),
    ),
    (
        "x * (relu6(x + 3) / 6)",
        K.HARD_SWISH,
        lambda w, x: w.times(x, w.over(w.relu6_of_plus_3(x), 6)),
    ),
    (
        "x * relu6(x + 3) * 0.1667",
        K.HARD_SWISH,
        lambda w, x: w.times(w.times(x, w.relu6_of_plus_3(x)), 0.1666667),
    ),
    ("relu6(x + 3) / 6", K.HARD_SIGMOID, lambda w, x: w.over(w.relu6_of_plus_3(x), 6)),
    ("0.5 * x * (1 + erf)", K.GELU, lambda w, x: w.times(w.times(x, 0.5), w.gelu_gate(x))),
    ("x * (1 + erf) * 0.5", K.GELU, lambda w, x: w.times(w.times(x, w.gelu_gate(x)), 0.5)),
    ("x * (0.5 * (1 + erf))", K.GELU, lambda w, x: w.times(x, w.times(w.gelu_gate(x), 0.5))),
    ("x * (1 + erf) / 2", K.GELU, lambda w, x: w.over(w.times(x, w.gelu_gate(x)), 2)),
    (
        "gelu by tanh, x * x * x",
        K.GELU_TANH,
        lambda w, x: w.times(w.times(x, 0.5), w.tanh_gate(x, w.times(w.times(x, x), x))),
    ),
    (
        "gelu by tanh, x ** 3",
        K.GELU_TANH,
        lambda w, x: w.times(
            w.times(x, 0.5),
            w.tanh_gate(
                x, w.builder.add(Binary(BinaryFunction.POW), x, w.builder.constant(3, x.dtype))
            ),
        ),
    ),
    (
        "x * tanh(softplus(x))",
        K.MISH,
        lambda w, x: w.times(x, w.act(K.TANH, w.act(K.SOFTPLUS, x))),
    ),
    (
        "log(1 + exp(x))",
        K.SOFTPLUS,
        lambda w, x: w.unary(UnaryFunction.LOG, w.plus(w.unary(UnaryFunction.EXP, x), 1)),
    ),
    ("max(x, 0)", K.RELU, lambda w, x: w.bound(BinaryFunction.MAX, x, 0)),
    (
        "min(max(x, 0), 6)",
        K.CLIP,
        lambda w, x: w.bound(BinaryFunction.MIN, w.bound(BinaryFunction.MAX, x, 0), 6),
    ),
    ("clip(x, 0, inf)", K.RELU, lambda w, x: w.act(K.CLIP, x, 0, math.inf)),
]


@pytest.mark.parametrize("swap", [False, True], ids=["", "swapped"])
@pytest.mark.parametrize(
    ("kind", "spelling"), [one[1:] for one in SPELLINGS], ids=[one[0] for one in SPELLINGS]
)
def test_a_spelling_becomes_one_activation(
    kind: ActivationKind, spelling: Spelling, swap: bool
) -> None:
    graph = graph_of(lambda b, x: spelling(Words(b, swap), x), (2, 3, 4))
    result = remove_dead_code(recognize_activations(graph))
    assert_same_results(graph, result)
    (node,) = result.nodes
    assert isinstance(node.op, Activate)
    assert node.op.activation.kind is kind


OTHERS: list[tuple[str, Spelling]] = [
    ("x * sigmoid(2 * x)", lambda w, x: w.times(x, w.act(K.SIGMOID, w.times(x, 2)))),
    ("2 * x * sigmoid(x)", lambda w, x: w.times(w.times(x, 2), w.act(K.SIGMOID, w.plus(x, 0)))),
    ("x * hard_sigmoid(x, 0.2)", lambda w, x: w.times(x, w.act(K.HARD_SIGMOID, x, 0.2, 0.5))),
    ("x * relu6(x + 3) / 5", lambda w, x: w.over(w.times(x, w.relu6_of_plus_3(x)), 5)),
    ("relu6(x + 2) / 6", lambda w, x: w.over(w.act(K.CLIP, w.plus(x, 2), 0, 6), 6)),
    ("x * (1 + erf)", lambda w, x: w.times(x, w.gelu_gate(x))),
    (
        "x * (1 + erf(x)) / 2",
        lambda w, x: w.over(w.times(x, w.plus(w.unary(UnaryFunction.ERF, x), 1)), 2),
    ),
    ("x * tanh(x)", lambda w, x: w.times(x, w.act(K.TANH, x))),
    (
        "log(2 + exp(x))",
        lambda w, x: w.unary(UnaryFunction.LOG, w.plus(w.unary(UnaryFunction.EXP, x), 2)),
    ),
]


@pytest.mark.parametrize("spelling", [one[1] for one in OTHERS], ids=[one[0] for one in OTHERS])
def test_what_is_nearly_one_stays(spelling: Spelling) -> None:
    graph = graph_of(lambda b, x: spelling(Words(b, False), x), (2, 3, 4))
    result = recognize_activations(graph)
    assert_same_results(graph, result)
    assert [node.op for node in result.nodes] == [node.op for node in graph.nodes]


@pytest.mark.parametrize("kind", [K.HARD_SIGMOID, K.SOFTPLUS, K.RELU, K.LEAKY_RELU])
def test_numbers_of_more_dimensions_than_x_leave_the_result_those(kind: ActivationKind) -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        words = Words(b, False)
        one, three, zero = (_numbers(b, (1, 1, 1, 1), (number,)) for number in (1, 3, 0))
        match kind:
            case K.HARD_SIGMOID:
                return words.over(words.act(K.CLIP, words.plus(x, three), 0, 6), 6)
            case K.SOFTPLUS:
                return words.unary(UnaryFunction.LOG, words.plus(words.unary(EXP, x), one))
            case K.RELU:
                return b.add(Binary(BinaryFunction.MAX), x, zero)
        return b.add(Binary(BinaryFunction.PRELU), x, three)

    graph = graph_of(make, (2, 3, 4))
    result = optimize(graph)
    assert [result.values[name].shape for name in result.outputs.values()] == [(1, 2, 3, 4)]
    assert_same_results(graph, result)


def test_products_that_double_at_every_step_are_read_in_time() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        for _ in itertools.repeat(None, 200):
            x = b.add(Binary(BinaryFunction.MUL), x, x)
        return x

    graph = graph_of(make, (1,))
    assert len(recognize_activations(graph).nodes) == 200


def prelu(*slopes: float) -> Graph:
    """Return PReLU of an image with one channel for each slope, or any number for one."""

    def network(builder: GraphBuilder, x: Value) -> dict[str, Value]:
        shape = (len(slopes), 1, 1) if len(slopes) > 1 else (1,)
        return {"y": builder.add(Binary(BinaryFunction.PRELU), x, _numbers(builder, shape, slopes))}

    return graph_of(network, (2, max(2, len(slopes)), 5, 4))


def _numbers(builder: GraphBuilder, shape: tuple[int, ...], numbers: tuple[float, ...]) -> Value:
    return builder.constant(np.array(numbers, np.float32).reshape(shape))


@pytest.mark.parametrize("slopes", [(0.25,), (-1.5,), (3.0,), (0.0,), (0.25, 0.25, 0.25)])
def test_prelu_with_one_slope_is_an_activation(slopes: tuple[float, ...]) -> None:
    graph = prelu(*slopes)
    result = remove_dead_code(recognize_activations(graph))
    (node,) = result.nodes
    assert node.op == Activate(Activation(ActivationKind.LEAKY_RELU, slopes[:1]))
    assert_same_results(graph, result)


@pytest.mark.parametrize("slopes", [(0.25, 0.5), (math.nan,), (math.inf, math.inf)])
def test_prelu_with_slopes_of_channels_stays(slopes: tuple[float, ...]) -> None:
    (node,) = recognize_activations(prelu(*slopes)).nodes
    assert node.op == Binary(BinaryFunction.PRELU)


def test_prelu_whose_slope_is_no_constant_stays() -> None:
    def network(builder: GraphBuilder, x: Value) -> dict[str, Value]:
        return {"y": builder.add(Binary(BinaryFunction.PRELU), x, x)}

    (node,) = recognize_activations(graph_of(network, (2, 3, 5, 4))).nodes
    assert node.op == Binary(BinaryFunction.PRELU)


def test_prelu_is_inside_the_convolution_before_it() -> None:
    def network(builder: GraphBuilder, x: Value) -> dict[str, Value]:
        w = builder.constant(np.ones((4, 3, 1, 1), np.float32))
        deep = builder.add(Convolution(Geometry.plain(2)), x, w)
        slope = _numbers(builder, (1,), (0.25,))
        return {"y": builder.add(Binary(BinaryFunction.PRELU), deep, slope)}

    graph = graph_of(network, (2, 3, 5, 4))
    result = optimize(graph)
    (node,) = result.nodes
    assert isinstance(node.op, Convolution)
    assert node.op.epilogue.activation == Activation(ActivationKind.LEAKY_RELU, (0.25,))
    assert_same_results(graph, result)
