"""Concatenations that begin alike grow out of each other, and others stay as they are."""

from __future__ import annotations

from networks_for_tests import assert_same_results, graph_of

from convfind_networks import GraphBuilder, Value
from convfind_networks.ops import Activate, Activation, ActivationKind, Concat
from convfind_networks.passes import optimize, share_beginnings

TANH = Activate(Activation(ActivationKind.TANH))
X = (2, 3, 4)


def test_layers_that_join_all_before_them_grow_out_of_each_other() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        layers = [x]
        for _ in range(4):
            layers.append(b.add(TANH, b.add(Concat(1), *layers)))
        return b.add(Concat(1), *layers)

    graph = graph_of(make, X)
    shared = share_beginnings(graph)
    joined = [node.inputs for node in shared.nodes if node.op == Concat(1)]
    # the first of one piece is none that others grow out of
    assert [len(inputs) for inputs in joined] == [1, 2, 2, 2, 2]
    results = [node.output for node in shared.nodes if node.op == Concat(1)]
    assert [inputs[0] for inputs in joined[2:]] == results[1:-1]
    assert_same_results(graph, shared)
    assert_same_results(graph, optimize(graph))


def test_the_longest_beginning_is_taken() -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        one, two, three = (b.add(TANH, x) for _ in range(3))
        short = b.add(Concat(1), x, one)
        long = b.add(Concat(1), x, one, two)
        return {"short": short, "long": long, "last": b.add(Concat(1), x, one, two, three, x)}

    graph = graph_of(make, X)
    shared = share_beginnings(graph)
    long, last = shared.outputs["long"], shared.outputs["last"]
    assert shared.producers[last].inputs[0] == long
    assert len(shared.producers[last].inputs) == 3
    assert_same_results(graph, shared)


def test_other_axes_orders_and_equal_ones_stay() -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        one, two = b.add(TANH, x), b.add(TANH, b.add(TANH, x))
        first = b.add(Concat(1), x, one)
        return {
            "first": first,
            "equal": b.add(Concat(1), x, one),
            "axis": b.add(Concat(2), x, one, two),
            "order": b.add(Concat(1), one, x, two),
        }

    graph = graph_of(make, X)
    shared = share_beginnings(graph)
    assert [node.inputs for node in shared.nodes] == [node.inputs for node in graph.nodes]
