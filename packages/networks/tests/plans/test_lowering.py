"""Nodes as problems: what is split, what is refused, and what is said of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from networks_for_tests import assert_same_results, graph_of
from plans_for_tests import Layers

from convfind_networks import GraphBuilder, Value, optimize
from convfind_networks.lowering import split_activations
from convfind_networks.lowering.activation import is_kernels, kernel_activation
from convfind_networks.ops import Activate, Activation, ActivationKind, Binary, BinaryFunction

X = np.concatenate([np.linspace(-9, 9, 101), [0.0, 1e-3, 30.0, -30.0]])
#: Those that no kernel ends with.
ALONE = {
    ActivationKind.THRESHOLDED_RELU,
    ActivationKind.SELU,
    ActivationKind.CELU,
    ActivationKind.SOFTSIGN,
    ActivationKind.POWER,
}


@pytest.mark.parametrize("kind", [kind for kind in ActivationKind if kind not in ALONE])
def test_activations_mean_the_same_in_kernels(kind: ActivationKind) -> None:
    numbers = (0.0, 6.0) if kind is ActivationKind.CLIP else ()
    activation = Activation(kind, numbers)
    np.testing.assert_allclose(kernel_activation(activation)(X), activation(X), atol=1e-12)


@pytest.mark.parametrize(
    "activation",
    [
        *(Activation(kind) for kind in sorted(ALONE)),
        Activation(ActivationKind.SILU, (2.0,)),
        Activation(ActivationKind.CLIP, (-1.0, math.inf)),
        Activation(ActivationKind.CLIP, (-math.inf, 1.0)),
    ],
)
def test_activations_that_kernels_lack_become_nodes_again(activation: Activation) -> None:
    def make(builder: GraphBuilder, x: Value) -> Value:
        return builder.add(Activate(activation), Layers(builder).convolution(x, 4))

    graph = optimize(graph_of(make, (1, 3, 5, 5)))
    assert [node.op.kind for node in graph.nodes] == ["Convolution"]
    split = split_activations(graph)
    assert not is_kernels(activation)
    assert [node.op.kind for node in split.nodes] == ["Convolution", "Activate"]
    assert_same_results(graph, split)


def test_of_bounds_that_cross_the_upper_one_is_left() -> None:
    crossed = Activation(ActivationKind.CLIP, (2.0, -1.0))
    np.testing.assert_array_equal(crossed(X), np.full_like(X, -1.0))
    np.testing.assert_array_equal(kernel_activation(crossed)(X), np.full_like(X, -1.0))


def test_a_sum_behind_such_an_activation_becomes_a_node_again_too() -> None:
    def make(builder: GraphBuilder, x: Value) -> Value:
        y = builder.add(
            Activate(Activation(ActivationKind.SELU)), Layers(builder).convolution(x, 3)
        )
        return builder.add(Binary(BinaryFunction.ADD), x, y)

    graph = optimize(graph_of(make, (1, 3, 5, 5)))
    assert [node.op.kind for node in graph.nodes] == ["Convolution"]
    split = split_activations(graph)
    assert [node.op.kind for node in split.nodes] == ["Convolution", "Activate", "Binary"]
    assert_same_results(graph, split)


def test_a_gate_that_kernels_lack_becomes_a_node_again() -> None:
    selu = Activate(Activation(ActivationKind.SELU))

    def make(builder: GraphBuilder, x: Value, y: Value) -> Value:
        return builder.add(Binary(BinaryFunction.SUB), x, builder.add(selu, y))

    graph = optimize(graph_of(make, (3, 5), (3, 5)))
    assert [str(node.op) for node in graph.nodes] == ["Binary[sub+selu(b)]"]
    split = split_activations(graph)
    assert [str(node.op) for node in split.nodes] == ["Activate[selu]", "Binary[sub]"]
    assert_same_results(graph, split)


def test_activations_that_kernels_have_stay_where_they_are() -> None:
    def make(builder: GraphBuilder, x: Value) -> Value:
        make = Layers(builder)
        return make.relu(make.convolution(x, 4))

    graph = optimize(graph_of(make, (1, 3, 5, 5)))
    assert split_activations(graph).nodes == graph.nodes
