"""Memory plans: small, and nothing is overwritten before it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks_for_tests import LIGHT_MODELS, graph_of, laid_out_alike, random_inputs

from convfind_networks import (
    Graph,
    GraphBuilder,
    MemoryPlan,
    Network,
    Value,
    channels_last_where_possible,
    evaluate,
    plan_memory,
)
from convfind_networks.layouts import LaidOut, lay_out, nested
from convfind_networks.memory import Block
from convfind_networks.memory.plan import lower_bound
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    AveragePool,
    Binary,
    BinaryFunction,
    Concat,
    Convolution,
    Epilogue,
    Geometry,
    Reshape,
    Split,
    Transpose,
    Window,
)
from convfind_networks.ops.op import run_op

RELU = Activate(Activation(ActivationKind.RELU))
TANH = Activate(Activation(ActivationKind.TANH))
X = (1, 16, 4, 4)


def run_in_arena(
    graph: Graph,
    plan: MemoryPlan,
    inputs: Mapping[str, Any],
    laid_out: LaidOut | None = None,
) -> dict[str, Any]:
    """Run a graph as a device would: every value lies where the plan says, and nowhere else."""
    arena = np.full(plan.nbytes, 0xFF, np.uint8)  # NaN, until something is written
    given = {name: np.array(array, np.float32) for name, array in inputs.items()}
    apart = {
        block: np.full(graph.values[graph.outputs[public]].type.nbytes, 0xFF, np.uint8)
        for block, public in plan.outputs.items()
    }

    def memory(name: str) -> np.ndarray[Any, Any]:
        value = graph.values[name]
        if value.data is not None:
            return value.data
        at, offset, view = arena, plan.offset(name), plan.views[name]
        if view.block in apart:
            at, offset = apart[view.block], view.offset
        elif offset is None:  # an input, or a part of one
            at, offset = given[view.block].reshape(-1).view(np.uint8), view.offset
        strides = None if laid_out is None else laid_out.own_strides(name)
        if strides is not None:
            steps = tuple(step * value.dtype.itemsize for step in strides)
            return np.ndarray(value.shape, value.dtype, at.data, offset, steps)
        part = at[offset : offset + value.type.nbytes].view(value.dtype)
        if laid_out is None or name not in laid_out.channels_last:
            return part.reshape(value.shape)
        batch, channels, *image = value.shape
        return np.moveaxis(part.reshape(batch, *image, channels), -1, 1)

    for node in graph.nodes:
        results = run_op(node.op, [memory(name) for name in node.inputs], graph.types(node.outputs))
        for name, result in zip(node.outputs, results, strict=True):
            memory(name)[...] = result
    for name, array in inputs.items():
        np.testing.assert_array_equal(given[name], np.asarray(array, np.float32))
    return {public: memory(name).copy() for public, name in graph.outputs.items()}


def planned(graph: Graph) -> MemoryPlan:
    """Plan, and hold a run in the arena to the results of the evaluator."""
    plan = plan_memory(graph)
    inputs = random_inputs(graph)
    got, expected = run_in_arena(graph, plan, inputs), evaluate(graph, inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4)
    assert plan.lower_bound <= plan.nbytes
    return plan


def planned_channels_last(graph: Graph) -> MemoryPlan:
    """The same with values that lie channels-last where they can, and outputs apart."""
    laid_out = nested(laid_out_alike(graph), alignment=16)
    plan = plan_memory(
        laid_out.graph,
        channels_last=laid_out.channels_last,
        within=laid_out.within,
        outputs_apart=True,
    )
    inputs = random_inputs(graph)
    got = run_in_arena(laid_out.graph, plan, inputs, laid_out)
    for name, array in evaluate(graph, inputs).items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4)
    return plan


def conv(
    b: GraphBuilder, x: Value, out: int = 16, z: Value | None = None, last: Activation | None = None
) -> Value:
    w = np.random.default_rng(out).standard_normal((out, x.shape[1], 1, 1)) / 10
    geometry = Geometry.plain(2)
    op = Convolution(geometry, Epilogue(False, z is not None, last, last is not None))
    return b.add(op, x, b.constant(w, np.float32), *([] if z is None else [z]))


def test_a_whole_is_not_overwritten_before_its_parts_are_read() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        whole = b.add(TANH, x)
        parts = b.add_all(Split(1, (32, 32)), whole)
        changed = b.add(Activate(Activation(ActivationKind.SIGMOID)), whole)
        product = b.add(Binary(BinaryFunction.MUL), *parts)
        return b.add(Concat(1), changed, product)

    graph = graph_of(make, (4, 64))
    plan = planned_channels_last(graph)
    whole, parts = graph.nodes[0].output, graph.nodes[1].outputs
    assert {plan.views[name].block for name in parts} == {plan.views[whole].block}
    assert [plan.views[name].offset for name in parts] == [0, 128]


@pytest.mark.parametrize("path", LIGHT_MODELS, ids=lambda path: path.stem)
def test_light_models_need_little_more_than_the_lower_bound(path: Path) -> None:
    plan = plan_memory(Network.from_onnx(path).optimized())
    assert plan.nbytes <= 1.05 * plan.lower_bound


@pytest.mark.parametrize("path", LIGHT_MODELS, ids=lambda path: path.stem)
def test_light_models_channels_last_need_the_lower_bound(path: Path) -> None:
    graph = Network.from_onnx(path).optimized()
    laid_out = nested(lay_out(graph, channels_last_where_possible(graph)))
    plan = plan_memory(
        laid_out.graph,
        channels_last=laid_out.channels_last,
        within=laid_out.within,
        outputs_apart=True,
    )
    assert plan.nbytes == plan.lower_bound


def test_values_that_grow_take_turns_at_the_ends_of_the_arena() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        for _ in range(4):
            x = b.add(Concat(1), x, conv(b, b.add(TANH, x), 8))
        return x

    plan = planned_channels_last(graph_of(make, (1, 16, 4, 4)))
    assert plan.nbytes == plan.lower_bound


def test_a_whole_network_runs_in_its_arena() -> None:
    (path,) = (one for one in LIGHT_MODELS if "squeezenet" in one.stem)
    planned(Network.from_onnx(path).optimized())


def test_a_chain_needs_two_blocks() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        for _ in range(6):
            x = conv(b, x)
        return x

    plan = planned(graph_of(make, X))
    assert plan.nbytes == plan.lower_bound == 2 * 1024


def test_elementwise_operations_and_reshapes_work_in_place() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = b.add(RELU, conv(b, x))
        y = b.add(Reshape((16, 16)), b.add(TANH, y))
        return b.add(Binary(BinaryFunction.ADD), y, b.constant(np.ones(16), np.float32))

    assert planned(graph_of(make, X)).nbytes == 1024


def test_a_residual_is_added_in_place() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        z = conv(b, x)
        return conv(b, conv(b, z), z=z)

    graph = graph_of(make, X)
    plan = planned(graph)
    assert plan.nbytes == 2 * 1024


def test_a_residual_behind_the_activation_is_not() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        z = conv(b, x)
        return conv(b, conv(b, z), z=z, last=Activation(ActivationKind.RELU))

    assert planned(graph_of(make, X)).nbytes == 3 * 1024


def test_a_residual_that_the_convolution_itself_reads_is_not() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        z = conv(b, x)
        return conv(b, b.add(Reshape(X), z), z=z)

    assert planned(graph_of(make, X)).nbytes == 2 * 1024


def test_what_is_read_later_is_not_overwritten() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = conv(b, x)
        flat = b.add(Reshape((256,)), y)
        z = b.add(RELU, y)
        return b.add(Binary(BinaryFunction.ADD), b.add(Reshape((256,)), z), flat)

    assert planned(graph_of(make, X)).nbytes == 2 * 1024


def test_inputs_are_never_written() -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        return {"y": b.add(RELU, b.add(Reshape((256,)), x)), "x": x}

    graph = graph_of(make, X)
    plan = planned(graph)
    assert plan.nbytes == 1024
    assert plan.offset("x0") is None


def test_a_chain_that_grows_channels_last_is_one_block() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = b.add(Concat(1), x, conv(b, x, 8))
        for _ in range(3):
            y = b.add(Concat(1), y, conv(b, b.add(TANH, y), 8))
        return conv(b, y)

    plan = planned_channels_last(graph_of(make, (2, 16, 4, 4)))
    largest = 2 * 4 * 4 * 48 * 4
    assert max(one.block.nbytes for one in plan.placements) == largest
    assert plan.nbytes < 2 * largest  # with what a layer reads, but no other concatenation


def test_a_slice_is_kept_while_pieces_reach_into_it_that_are_read_later() -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        pieces = [conv(b, x, 8) for _ in range(2)]
        first, second = b.add_all(Split(0, (1, 1)), b.add(Concat(1), *pieces))
        changed = conv(b, b.add(TANH, second))
        return {"first": conv(b, first), "second": changed, "piece": b.add(TANH, pieces[0])}

    plan = planned_channels_last(graph_of(make, (2, 16, 4, 4)))
    assert max(one.block.nbytes for one in plan.placements) == 2 * 16 * 4 * 4 * 4


def test_what_is_concatenated_is_computed_in_its_place() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        parts = [conv(b, x, out) for out in (16, 32, 8)]
        return b.add(Concat(1), parts[0], b.add(RELU, parts[1]), parts[2])

    graph = graph_of(make, X)
    plan = planned(graph)
    assert len(plan.placements) == 1
    assert plan.nbytes == 56 * 64


def test_concatenations_within_each_other_are_one_block() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = conv(b, x)
        for _ in range(3):
            y = b.add(Concat(1), y, conv(b, y))
        return conv(b, y)

    graph = graph_of(make, X)
    plan = planned(graph)
    assert len(plan.placements) == 2


def test_images_of_a_batch_are_copied_together() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.add(Concat(1), conv(b, x), conv(b, x, 8))

    assert len(planned(graph_of(make, (2, 16, 4, 4))).placements) == 3


def test_one_value_concatenated_twice_is_copied() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        y = conv(b, x)
        return b.add(Concat(1), y, y)

    assert len(planned(graph_of(make, X)).placements) == 2


def test_inputs_and_constants_are_copied_into_a_concatenation() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        ones = b.constant(np.ones(X), np.float32)
        return b.add(Concat(1), x, ones, conv(b, x))

    assert len(planned(graph_of(make, X)).placements) == 1


def test_pieces_stay_where_they_are() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        first, second = b.add_all(Split(1, (4, 12)), conv(b, x))
        return b.add(Concat(1), b.add(TANH, second), b.add(RELU, first))

    plan = planned(graph_of(make, X))
    assert plan.nbytes == 2 * 1024


def test_workspaces_are_there_while_their_node_runs() -> None:
    graph = graph_of(lambda b, x: conv(b, conv(b, conv(b, x))), X)
    first = graph.nodes[0].output
    plan = plan_memory(graph, workspaces={first: 5000})
    assert plan.nbytes == plan.lower_bound == 1024 + 5120
    assert plan_memory(graph).nbytes == 2048


_BLOCKS = st.builds(
    lambda size, first, length: Block("", 512 * size, first, first + length),
    st.integers(1, 9),
    st.integers(0, 9),
    st.integers(0, 5),
)


@settings(deadline=None)
@given(st.lists(_BLOCKS, max_size=25))
def test_blocks_that_are_needed_at_once_never_overlap(blocks: list[Block]) -> None:
    from convfind_networks.memory.plan import _ORDERS, _placed, _together

    blocks = [replace(one, name=str(at)) for at, one in enumerate(blocks)]
    bound, together = lower_bound(blocks, 15), _together(blocks)
    for order, end in product(_ORDERS, (None, bound)):
        placements = _placed(sorted(blocks, key=order), together, end)
        assert len(placements) == len(blocks)
        for at, one in enumerate(placements):
            for other in placements[at + 1 :]:
                if one.block.overlaps(other.block):
                    assert one.end <= other.offset or other.end <= one.offset
    most = max(sum(b.nbytes for b in blocks if b.first <= t <= b.last) for t in range(15))
    assert bound == most


_WORDS = ("relu", "conv", "add", "concat", "split", "flat", "turn", "pool")
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["relu", "conv", "add", "concat", "split", "flat", "turn", "pool"]),
        *[st.integers(0, 30)] * 2,
    ),
    min_size=1,
    max_size=14,
)


@settings(deadline=None, max_examples=60)
@given(_STEPS, st.integers(1, 2))
def test_drawn_networks_run_in_their_arena(steps: list[tuple[str, int, int]], batch: int) -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        values = [x]
        for word, first, second in steps:
            a, c = values[first % len(values)], values[second % len(values)]
            same = [one for one in values if one.shape == a.shape]
            match word:
                case "relu":
                    values.append(b.add(RELU, a))
                case "conv":
                    values.append(conv(b, a, 4 * (1 + second % 3)))
                case "add":
                    values.append(b.add(Binary(BinaryFunction.ADD), a, same[second % len(same)]))
                case "concat":
                    values.append(b.add(Concat(1), *([a, c] if a is not c else [a])))
                case "split" if a.shape[1] > 4:
                    values += b.add_all(Split(1, (4, a.shape[1] - 4)), a)
                case "flat":
                    flat = b.add(Reshape((a.type.elements,)), a)
                    values.append(b.add(Reshape(a.shape), b.add(TANH, flat)))
                case "turn":
                    values.append(b.add(Transpose((0, 1, 3, 2)), a))
                case "pool":
                    window = Window((3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
                    values.append(b.add(AveragePool(window), a))
            values = [one for one in values if one.shape[1] <= 64]
        return {"last": values[-1], "middle": values[len(values) // 2]}

    graph = graph_of(make, (batch, 8, 4, 4))
    planned(graph)
    planned_channels_last(graph)


def test_outputs_lie_in_memory_of_their_own() -> None:
    graph = graph_of(lambda b, x: {"y": conv(b, x), "z": b.add(RELU, x)}, X)
    plan = plan_memory(graph, outputs_apart=True)
    assert set(plan.outputs.values()) == {"y", "z"}
    assert plan.nbytes == plan.lower_bound == 0


def test_an_output_that_is_another_or_a_part_of_another_has_none() -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        first, second = conv(b, x, 8), conv(b, x, 16)
        both = b.add(Concat(1), first, second)
        return {"part": first, "whole": both, "again": both}

    plan = planned_channels_last(graph_of(make, X))
    assert "again" not in plan.outputs.values()
    assert "whole" in plan.outputs.values()


def test_channels_last_only_what_is_slowest_there_is_put_together_in_place() -> None:
    def make(axis: int) -> Graph:
        def tensors(b: GraphBuilder, x: Value) -> Value:
            pieces = (b.add(TANH, conv(b, x)) for _ in range(2))
            return b.add(RELU, b.add(Concat(axis), *pieces))

        return graph_of(tensors, X)

    # activations do not store pixels apart
    sizes = {axis: planned_channels_last(make(axis)).nbytes for axis in (1, 2)}
    assert sizes[1] > sizes[2]
