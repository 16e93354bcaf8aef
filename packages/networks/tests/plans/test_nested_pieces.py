"""Plans whose concatenations are computed in place: right numbers, no copies, saved and loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from networks_for_tests import graph_of
from plans_for_tests import Layers, compiled, inputs_of

from convfind.device.target import DeviceKind
from convfind.handle import Handle
from convfind_networks import Graph, GraphBuilder, Value, evaluate
from convfind_networks.ops import ChannelShuffle, Concat, Split
from convfind_networks.passes import optimize
from convfind_networks.plan import Plan

pytest.importorskip("safetensors")


def fire(net: Layers, x: Value) -> Value:
    """Return two layers side by side, and one behind them."""
    narrow = net.relu(net.convolution(x, 16, size=1))
    pieces = net.relu(net.convolution(narrow, 64, size=1)), net.relu(net.convolution(narrow, 32))
    return net.convolution(net.builder.add(Concat(1), *pieces), 24, size=1)


def dense(net: Layers, x: Value) -> Value:
    """Return layers each of which reads all before it."""
    for _ in range(3):
        y = net.convolution(net.relu(net.norm(x)), 16, size=1)
        x = net.builder.add(Concat(1), x, net.convolution(net.relu(net.norm(y)), 32))
    return net.relu(net.norm(x))


def lists(net: Layers, x: Value) -> Value:
    """Return the same, spelled as PyTorch's models are: lists that grow."""
    layers = [x]
    for _ in range(3):
        x = net.builder.add(Concat(1), *layers) if len(layers) > 1 else x
        y = net.convolution(net.relu(net.norm(x)), 16, size=1)
        layers.append(net.convolution(net.relu(net.norm(y)), 32))
    return net.relu(net.norm(net.builder.add(Concat(1), *layers)))


def whole(net: Layers, x: Value) -> Value:
    """Return an output whose pieces are computed in the caller's memory."""
    return net.builder.add(Concat(1), net.convolution(x, 32), net.convolution(x, 64, size=1))


def ghost(net: Layers, x: Value) -> Value:
    """Return modules whose channels are half computed by depthwise convolutions of the others."""
    for channels in (12, 20):
        one = net.relu(net.convolution(x, channels, size=1))
        two = net.relu(net.convolution(one, channels, groups=channels))
        x = net.builder.add(Concat(1), one, two)
    return net.convolution(x, 24, size=1)


def shuffled(net: Layers, x: Value) -> Value:
    """Return units of which half the channels pass by, and are dealt out among the others."""
    x = net.relu(net.convolution(x, 40, size=1))
    for _ in range(3):
        kept, y = net.builder.add_all(Split(1, (20, 20)), x)
        y = net.convolution(net.relu(net.convolution(y, 20, size=1)), 20, groups=20)
        y = net.relu(net.convolution(y, 20, size=1))
        x = net.builder.add(ChannelShuffle(2), net.builder.add(Concat(1), kept, y))
    return net.convolution(x, 24, size=1)


def graph_for(make: Callable[[Layers, Value], Value]) -> Graph:
    def tensors(builder: GraphBuilder, x: Value) -> Value:
        return make(Layers(builder), x)

    return optimize(graph_of(tensors, (3, 32, 9, 7)))


def copied_pieces(plan: Plan) -> list[int]:
    """Return how many pieces each concatenation copies."""
    tasks = [task for task in plan.schedule.tasks if task.problem.kind == "concat"]
    return [len(task.problem.reads) - len(task.in_place) for task in tasks]


# How many pieces are copied where kernels store pixels apart; channels first all are.
@pytest.mark.parametrize(
    ("make", "copies", "all_copies"),
    [(fire, [], [2]), (dense, [1], [2, 2, 2]), (lists, [1], [2, 2, 2]), (whole, [], [2])],
)
@pytest.mark.parametrize("last", [True, False])
def test_pieces_are_computed_where_they_belong(
    handle: Handle,
    make: Callable[[Layers, Value], Value],
    copies: list[int],
    all_copies: list[int],
    last: bool,
    tmp_path: Path,
) -> None:
    graph = graph_for(make)
    plan = compiled(handle, graph, channels_last=last)
    if last and make is not whole:  # whose output is wanted channels first
        is_cpu = handle.target.kind is DeviceKind.CPU
        assert copied_pieces(plan) == (copies if is_cpu else all_copies)
    elif not last:
        assert copied_pieces(plan) == all_copies
    inputs = inputs_of(graph)
    (expected,) = evaluate(graph, inputs).values()
    plan.save(tmp_path / "plan")
    for one in (plan, Plan.load(tmp_path / "plan", handle)):
        for _ in range(2):
            (got,) = one.run(inputs).values()
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


# How many pieces each concatenation copies where steps may begin anywhere; kept halves are copied.
@pytest.mark.parametrize(("make", "copies"), [(ghost, []), (shuffled, [1, 1, 1])])
@pytest.mark.parametrize("last", [True, False])
def test_pieces_of_any_channels_where_steps_may_begin_anywhere(
    handle: Handle,
    make: Callable[[Layers, Value], Value],
    copies: list[int],
    last: bool,
    tmp_path: Path,
) -> None:
    graph = graph_for(make)
    plan = compiled(handle, graph, channels_last=last)
    device = handle.session.device
    is_anywhere = device.target.kind is DeviceKind.CPU and device.step_alignment == 4
    assert (copied_pieces(plan) == copies) is (last and is_anywhere)
    kinds = [task.problem.kind for task in plan.schedule.tasks]
    assert ("split" not in kinds) is (make is ghost or (last and is_anywhere))
    inputs = inputs_of(graph)
    (expected,) = evaluate(graph, inputs).values()
    plan.save(tmp_path / "plan")
    for one in (plan, Plan.load(tmp_path / "plan", handle)):
        for _ in range(2):
            (got,) = one.run(inputs).values()
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(6,), (4, 6), (6, 2, 3)])
def test_vectors_are_joined_and_split(handle: Handle, shape: tuple[int, ...]) -> None:
    axis = shape.index(6)

    def tensors(builder: GraphBuilder, x: Value, y: Value) -> dict[str, Value]:
        head, tail = builder.add_all(Split(axis, (2, 4)), x)
        return {"joined": builder.add(Concat(axis), tail, y, head), "tail": tail}

    graph = graph_of(tensors, shape, shape)
    inputs = inputs_of(graph)
    got, expected = compiled(handle, graph).run(inputs), evaluate(graph, inputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value)
