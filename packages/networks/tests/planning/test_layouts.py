"""Layouts: the cheapest of all assignments, on chains, residuals and branches."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks_for_tests import LIGHT_MODELS, graph_of

from convfind.device.target import DeviceKind, Target
from convfind.handle import Handle
from convfind_networks import (
    Graph,
    GraphBuilder,
    LayoutPlan,
    Network,
    Node,
    Value,
    assign_layouts,
    channels_last_where_possible,
)
from convfind_networks.layouts import lay_out
from convfind_networks.layouts.assignment import follows_layout, has_layout
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    Binary,
    BinaryFunction,
    Concat,
    Convolution,
    Geometry,
    GlobalPool,
    MatMul,
    PoolKind,
    Reshape,
    Split,
    Transpose,
)
from convfind_networks.plan.posing import Posing

RELU = Activate(Activation(ActivationKind.RELU))
W = np.ones((4, 4, 1, 1), np.float32)
X = (1, 4, 2, 2)


def conv(b: GraphBuilder, x: Value) -> Value:
    return b.add(Convolution(Geometry.plain(2)), x, b.constant(W))


def plus(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.add(Binary(BinaryFunction.ADD), x, y)


class Costs:
    """Costs of nodes by name, drawn once; what is not drawn is cheap and the same."""

    def __init__(self, numbers: list[int], mixed: bool = False) -> None:
        self.numbers = numbers
        self.mixed = mixed

    def node(self, node: Node, reads: bool, writes: bool) -> float:
        if reads != writes and not self.mixed:
            return math.inf
        at = sum(map(ord, node.output)) * 4 + 2 * reads + writes
        return float(self.numbers[at % len(self.numbers)])

    def copy(self, value: Value) -> float:
        return float(self.numbers[sum(map(ord, value.name)) % len(self.numbers)])


def cheapest(graph: Graph, costs: Costs) -> float:
    """Return the least cost of all assignments, by trying each."""
    choices = [
        list(itertools.product((False, True), repeat=2))
        if follows_layout(graph, n)
        else [(False, False)]
        for n in graph.nodes
    ]
    best = math.inf
    for chosen in itertools.product(*choices):
        pairs = [pair or (False, False) for pair in chosen]
        total = sum(costs.node(n, *p) for n, p in zip(graph.nodes, pairs, strict=True))
        if total >= best:
            continue
        exists: dict[str, set[bool]] = {name: {False} for name in graph.inputs}
        reads: list[tuple[str, bool]] = []
        for node, (into, out) in zip(graph.nodes, pairs, strict=True):
            reads += [(name, into) for name in node.inputs]
            exists.update({name: {out} for name in node.outputs})
        reads += [(name, False) for name in graph.outputs.values()]
        for name, layout in reads:
            value = graph.values[name]
            if has_layout(value) and layout not in exists[name]:
                exists[name].add(layout)
                total += costs.copy(value)
        best = min(best, total)
    return best


def assert_consistent(graph: Graph, plan: LayoutPlan) -> None:
    """Every node finds its inputs in the layout that it reads."""
    exists = {name: {False} for name in graph.inputs}
    copies = list(plan.copies)
    for node in graph.nodes:
        for copy in [one for one in copies if one.before == node.output]:
            exists[copy.value].add(copy.channels_last)
        into, out = plan.nodes[node.output]
        for name in node.inputs:
            if has_layout(graph.values[name]):
                assert into in exists[name]
        exists.update({name: {out} for name in node.outputs})
    for copy in [one for one in copies if one.before is None]:
        exists[copy.value].add(copy.channels_last)
    for name in graph.outputs.values():
        assert not has_layout(graph.values[name]) or False in exists[name]


def chain(b: GraphBuilder, x: Value) -> Value:
    x = conv(b, b.add(RELU, conv(b, x)))
    return b.add(Reshape((4,)), b.add(GlobalPool(PoolKind.AVERAGE), x))


def residual(b: GraphBuilder, x: Value) -> Value:
    y = conv(b, x)
    return plus(b, conv(b, b.add(RELU, y)), y)


def branches(b: GraphBuilder, x: Value) -> dict[str, Value]:
    y = conv(b, x)
    z = b.add(Concat(1), conv(b, y), b.add(RELU, y), conv(b, y))
    return {"z": z, "flat": b.add(Reshape((16,)), y)}


@pytest.mark.parametrize("make", [chain, residual, branches])
@settings(deadline=None, max_examples=12)
@given(numbers=st.lists(st.integers(0, 9), min_size=7, max_size=60), mixed=st.booleans())
def test_the_cost_is_the_least_of_all(make: object, numbers: list[int], mixed: bool) -> None:
    graph = graph_of(make, X)  # type: ignore[arg-type]
    costs = Costs(numbers, mixed)
    plan = assign_layouts(graph, costs.node, costs.copy)
    assert plan.cost == cheapest(graph, costs)
    assert_consistent(graph, plan)


def test_a_value_that_several_nodes_read_is_copied_once() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        return plus(b, conv(b, x), plus(b, conv(b, x), conv(b, x)))

    graph = graph_of(make, X)

    def cost(node: Node, reads: bool, writes: bool) -> float:
        wanted = isinstance(node.op, Convolution)
        return 0.0 if (reads, writes) == (wanted, False) else math.inf

    plan = assign_layouts(graph, cost, lambda _: 1.0)
    assert [copy.value for copy in plan.copies] == ["x0"]
    assert plan.cost == 1


def test_what_nobody_can_run_costs_infinitely_much() -> None:
    graph = graph_of(conv, X)
    assert assign_layouts(graph, lambda *_: math.inf, lambda _: 1.0).cost == math.inf


def test_few_states_still_give_a_plan() -> None:
    graph = graph_of(branches, X)
    costs = Costs([3, 1, 4, 1, 5, 9, 2, 6])
    plan = assign_layouts(graph, costs.node, costs.copy, most_states=1)
    assert_consistent(graph, plan)
    assert plan.cost >= cheapest(graph, costs)


@pytest.mark.parametrize("path", LIGHT_MODELS, ids=lambda path: path.stem)
def test_by_rule_networks_are_channels_last_between_their_edges(path: Path) -> None:
    graph = Network.from_onnx(path).optimized()
    plan = channels_last_where_possible(graph)
    assert_consistent(graph, plan)
    for node in graph.nodes:
        if isinstance(node.op, Convolution):
            assert plan.nodes[node.output] == (True, True)
    first = channels_last_where_possible(graph, prefer=False)
    assert not any(reads or writes for reads, writes in first.nodes.values())
    assert not first.copies


@pytest.mark.parametrize("shape", [(1, 2, 2, 4), (1, 2, 3, 2, 4), (1, 3, 4)], ids=str)
def test_transposes_around_a_channels_last_network_cost_nothing(shape: tuple[int, ...]) -> None:
    rank = len(shape)

    def make(b: GraphBuilder, x: Value) -> Value:
        x = b.add(Transpose((0, rank - 1, *range(1, rank - 1))), x)
        op = Convolution(Geometry.plain(rank - 2))
        y = b.add(op, x, b.constant(np.ones((4, 4, *(1,) * (rank - 2)), np.float32)))
        return b.add(Transpose((0, *range(2, rank), 1)), y)

    graph = graph_of(make, shape)
    plan = channels_last_where_possible(graph)
    assert plan.cost == 0
    laid_out = lay_out(graph, plan)
    assert [type(node.op) for node in laid_out.graph.nodes] == [Reshape, Convolution, Reshape]
    assert len(laid_out.channels_last) == 2


def test_pieces_that_only_change_places_are_not_copied_between_layouts() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        x = b.add(Reshape((1, 2, 2, 4)), conv(b, conv(b, x)))
        first, second = b.add_all(Split(1, (1, 1)), x)
        whole = b.add(Concat(1), second, b.add(RELU, first))
        return conv(b, conv(b, b.add(Reshape(X), plus(b, x, whole))))

    graph = graph_of(make, X)
    plan = channels_last_where_possible(graph)
    assert_consistent(graph, plan)
    last = {node.op.kind for node in graph.nodes if plan.nodes[node.output][0]}
    assert last == {"Convolution"}


def test_other_transposes_stay() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        return conv(b, b.add(Transpose((0, 1, 3, 2)), x))

    graph = graph_of(make, X)
    laid_out = lay_out(graph, channels_last_where_possible(graph))
    assert Transpose((0, 1, 3, 2)) in [node.op for node in laid_out.graph.nodes]


@pytest.mark.parametrize(
    ("arch", "kind", "expected"),
    [
        ("sm_90", DeviceKind.GPU, True),  # its matrix units multiply float32 in parts
        ("sm_80", DeviceKind.GPU, False),
        ("gfx90a", DeviceKind.GPU, False),
        ("x86-64-avx2", DeviceKind.CPU, True),
    ],
)
def test_float32_is_channels_last_where_the_device_is_quicker_so(
    arch: str, kind: DeviceKind, expected: bool
) -> None:
    features = frozenset({"nv-ptx"}) if arch.startswith("sm_") else frozenset[str]()
    target = Target("b", "d", kind, "v", "p", arch, 1, "1", features=features)
    posing = Posing("network", cast("Handle", SimpleNamespace(target=target)))
    assert posing.prefers_channels_last(graph_of(lambda b, x: conv(b, x), X)) is expected


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((3, 5), (1, 5)),
        ((2, 3, 5), (15, 1, 5)),
        ((2, 4, 3, 5), (60, 15, 1, 5)),
        ((1, 1, 2, 1, 3, 5), (30, 30, 15, 15, 1, 5)),
    ],
)
@pytest.mark.parametrize("prefer", [False, True])
def test_products_read_transposed_matrices_where_they_lie(
    shape: tuple[int, ...], strides: tuple[int, ...], prefer: bool
) -> None:
    rank = len(shape)
    order = (*range(rank - 2), rank - 1, rank - 2)

    def product(b: GraphBuilder, x: Value) -> dict[str, Value]:
        turned = b.add(Transpose(order), b.add(RELU, x), name="turned")
        return {"y": b.add(MatMul(), x, turned), "z": b.add(MatMul(), turned, x)}

    graph = graph_of(product, shape)
    laid_out = lay_out(graph, channels_last_where_possible(graph, prefer=prefer))
    assert laid_out.turned == {"turned"}
    assert laid_out.own_strides("turned") == strides
    ops = {node.output: node.op for node in laid_out.graph.nodes}
    assert isinstance(ops["turned"], Reshape)


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 2, 1, 3)])
def test_what_others_read_transposed_is_copied(order: tuple[int, ...]) -> None:
    def copied(b: GraphBuilder, x: Value) -> dict[str, Value]:
        turned = b.add(Transpose(order), b.add(RELU, x))
        outputs = {"y": b.add(MatMul(), turned, turned)}
        return outputs if order[1] == 2 else {**outputs, "z": b.add(RELU, turned)}

    graph = graph_of(copied, (2, 3, 3, 3))
    laid_out = lay_out(graph, channels_last_where_possible(graph, prefer=False))
    assert not laid_out.turned
    assert sum(isinstance(node.op, Transpose) for node in laid_out.graph.nodes) == 1


def test_a_transposed_output_is_copied() -> None:
    def shown(b: GraphBuilder, x: Value) -> dict[str, Value]:
        turned = b.add(Transpose((1, 0)), b.add(RELU, x))
        return {"y": b.add(MatMul(), x, turned), "z": turned}

    graph = graph_of(shown, (3, 5))
    assert not lay_out(graph, channels_last_where_possible(graph)).turned
