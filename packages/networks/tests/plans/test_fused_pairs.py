"""Pairs of nodes run as one where that was measured faster.

Such pairs are a 1x1 convolution and the depthwise one behind it, and a copy into channels last and
the convolution that reads it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks_for_tests import graph_of
from plans_for_tests import RELU, Layers, compiled, inputs_of

from convfind.find.result import FindResult
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.types import Layout
from convfind_networks import Graph, GraphBuilder, Value, evaluate, optimize
from convfind_networks.graph import Node
from convfind_networks.layouts import LaidOut, channels_last_where_possible, lay_out
from convfind_networks.lowering import Call, fuse_pairs, fusible_pairs, lower
from convfind_networks.ops import Convolution, Epilogue, Geometry, PointwiseDepthwise
from convfind_networks.plan import Plan
from convfind_networks.plan.draft import Draft
from convfind_networks.plan.fusion import faster_pairs
from convfind_networks.plan.posing import Posing


def layer(
    make: Layers, x: Value, channels: int, size: int = 1, *, groups: int = 1, stride: int = 1
) -> Value:
    """Add a convolution with bias and ReLU, padded to keep sizes."""
    pads = (size // 2,) * 2
    op = Convolution(
        Geometry((stride,) * 2, pads, pads, (1, 1), groups), Epilogue(bias=True, activation=RELU)
    )
    w = make.weights(channels, x.shape[1] // groups, size, size)
    return make.builder.add(op, x, w, make.weights(channels))


def block(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    wide = layer(make, x, 32)
    deep = layer(make, wide, 32, 3, groups=32, stride=2)
    return {"y": layer(make, deep, 8)}


def not_read_once(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    wide = layer(make, x, 32)
    return {"wide": wide, "y": layer(make, wide, 32, 3, groups=32)}


def not_depthwise(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    return {"y": layer(make, layer(make, x, 32), 32, 3, groups=16)}


def not_pointwise(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    return {"y": layer(make, layer(make, x, 32, 3), 32, 3, groups=32)}


def laid(graph: Graph, *, prefer: bool = True) -> LaidOut:
    return lay_out(graph, channels_last_where_possible(graph, prefer=prefer))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return optimize(graph_of(block, (2, 16, 15, 14)))


@pytest.fixture(scope="module")
def fused(handle: Handle, graph: Graph) -> Graph:
    """Return the graph with the pair as one node, whatever its time."""
    images = frozenset(name for name, value in graph.values.items() if value.type.rank == 4)
    laid_out = LaidOut(graph, images)
    pairs = fusible_pairs(laid_out, handle.registry, handle.target)
    assert [node.op for node in pairs] == [graph.nodes[1].op]
    return fuse_pairs(laid_out, pairs).graph


def test_the_pair_is_one_node_that_means_the_same(graph: Graph, fused: Graph) -> None:
    inputs = inputs_of(graph)
    expected, got = evaluate(graph, inputs), evaluate(fused, inputs)
    assert fused.count("PointwiseDepthwise") == 1
    assert fused.count("Convolution") == 1
    assert fused.macs == graph.macs
    np.testing.assert_allclose(got["y"], expected["y"], rtol=0, atol=1e-6)


def test_a_plan_of_it_is_right_and_can_be_saved(
    handle: Handle, graph: Graph, fused: Graph, tmp_path: Path
) -> None:
    plan = compiled(handle, fused, channels_last=True)
    assert "pointwise-depthwise" in {task.problem.kind for task in plan.schedule.tasks}
    inputs = inputs_of(graph)
    expected = evaluate(graph, inputs)["y"]
    plan.save(tmp_path / "plan")
    for one in (plan, Plan.load(tmp_path / "plan", handle)):
        np.testing.assert_allclose(one.run(inputs)["y"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("make", [not_read_once, not_depthwise, not_pointwise])
def test_what_is_no_such_pair_stays(handle: Handle, make: Any) -> None:
    laid_out = laid(graph_of(make, (1, 16, 9, 8)))
    assert fusible_pairs(laid_out, handle.registry, handle.target) == {}


def test_channels_first_nobody_takes_it(handle: Handle, graph: Graph) -> None:
    laid_out = laid(graph, prefer=False)
    assert fusible_pairs(laid_out, handle.registry, handle.target) == {}


def test_without_measurements_the_convolutions_stay_two(handle: Handle, graph: Graph) -> None:
    plan = compiled(handle, graph, channels_last=True)
    assert "pointwise-depthwise" not in {task.problem.kind for task in plan.schedule.tasks}


@pytest.mark.parametrize(
    ("together", "alone", "is_faster"),
    [
        (1.9, 1.0, True),
        (2.005, 1.0, True),
        (2.1, 1.0, False),
        (None, 1.0, False),
        (9.0, None, True),
    ],
)
def test_measured_times_decide(
    handle: Handle, graph: Graph, together: float | None, alone: float | None, is_faster: bool
) -> None:
    laid_out = laid(graph)
    calls = lower("block", laid_out, handle.registry)
    pairs = fusible_pairs(laid_out, handle.registry, handle.target)
    (pair,) = pairs.values()

    def timed(call: Call, time: float | None) -> FindResult:
        found = handle.find(call.problem, on_miss="estimate")
        return replace(found, solutions=(replace(found.best, time_ms=time),))

    found = {call.problem: timed(call, alone) for call in calls}
    found[pair.problem] = timed(pair, together)
    chosen: dict[Node, Call] = faster_pairs(laid_out, calls, pairs, found)
    assert chosen == (pairs if is_faster else {})


@pytest.mark.slow
def test_a_measured_plan_is_right_whatever_was_faster(handle: Handle, graph: Graph) -> None:
    plan = compiled(handle, graph, channels_last=True, on_miss="measure")
    inputs = inputs_of(graph)
    expected = evaluate(graph, inputs)["y"]
    np.testing.assert_allclose(plan.run(inputs)["y"], expected, rtol=0, atol=1e-5)


def test_an_operation_of_two_says_what_it_is_of() -> None:
    plain = Convolution(Geometry.plain(2), Epilogue(bias=True))
    assert str(PointwiseDepthwise(plain, plain)).startswith("PointwiseDepthwise[")


def first_layer(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    return {"y": layer(make, layer(make, x, 16, 3, stride=2), 8)}


def two_first_layers(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    return {"y": layer(make, x, 16, 3, stride=2), "z": layer(make, x, 8)}


def pointwise_first_layer(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    return {"y": layer(make, layer(make, x, 32), 32, 3, groups=32)}


def test_a_first_layer_reads_channels_first(handle: Handle, tmp_path: Path) -> None:
    graph = optimize(graph_of(first_layer, (2, 3, 15, 14)))
    laid_out = laid(graph)
    pairs = fusible_pairs(laid_out, handle.registry, handle.target)
    fused = fuse_pairs(laid_out, pairs)
    assert fused.graph.count("LayoutCopy") == laid_out.graph.count("LayoutCopy") - 1
    (pair,) = pairs.values()
    assert isinstance(pair.problem, ConvProblem)
    layouts = pair.problem.x_layout, pair.problem.w_layout, pair.problem.y_layout
    assert layouts == (Layout.NCHW, Layout.NCHW, Layout.NHWC)
    posing = Posing("first", handle)
    calls = posing.calls(fused)
    found = dict(handle.find_all([call.problem for call in calls], on_miss="estimate"))
    result = found[pair.problem]
    name = "direct-cpu-first-nchw-to-nhwc-fwd"
    own = next(one for one in result.solutions if one.solver == name)
    found[pair.problem] = replace(result, solutions=(own,))
    plan = Draft(posing, fused, calls, found).plan()
    assert plan.explain().to_dict()["tasks"][0]["layout"] == "NCHW to NHWC"
    inputs = inputs_of(graph)
    expected = evaluate(graph, inputs)["y"]
    plan.save(tmp_path / "plan")
    for one in (plan, Plan.load(tmp_path / "plan", handle)):
        np.testing.assert_allclose(one.run(inputs)["y"], expected, rtol=0, atol=1e-5)


def test_a_copy_that_two_layers_read_stays(handle: Handle) -> None:
    laid_out = laid(graph_of(two_first_layers, (1, 3, 9, 8)))
    assert fusible_pairs(laid_out, handle.registry, handle.target) == {}


def test_no_node_is_in_two_pairs(handle: Handle) -> None:
    laid_out = laid(graph_of(pointwise_first_layer, (1, 3, 9, 8)))
    pairs = fusible_pairs(laid_out, handle.registry, handle.target)
    assert [call.problem.kind for call in pairs.values()] == ["pointwise-depthwise"]


@pytest.mark.parametrize(("together", "is_faster"), [(1.1, True), (3.0, False), (None, False)])
def test_a_copy_takes_what_its_bytes_take(
    handle: Handle, together: float | None, is_faster: bool
) -> None:
    laid_out = laid(optimize(graph_of(first_layer, (2, 3, 15, 14))))
    calls = lower("first", laid_out, handle.registry)
    pairs = fusible_pairs(laid_out, handle.registry, handle.target)
    found = {call.problem: handle.find(call.problem, on_miss="estimate") for call in calls}
    found |= {one.problem: handle.find(one.problem, on_miss="estimate") for one in pairs.values()}
    for problem, result in found.items():
        is_pair = problem in {one.problem for one in pairs.values()}
        time = None if not problem.is_measured else together if is_pair else 1.0
        best = replace(result.best, time_ms=time)
        found[problem] = replace(result, solutions=(best,))
    chosen = faster_pairs(laid_out, calls, pairs, found)
    assert chosen == (pairs if is_faster else {})
