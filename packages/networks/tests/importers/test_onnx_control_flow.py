"""Graphs within nodes, and sequences: unrolled when a model is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from networks_for_tests import onnx_model
from onnx import TensorProto, helper

from convfind_networks import Network, UnsupportedError, evaluate

Array = np.ndarray[Any, Any]


def body(nodes: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str], kind: int = 1) -> Any:
    """Return a graph for a node, whose inputs and outputs are of one element type."""
    given, made = (
        [helper.make_tensor_value_info(name, kind, None) for name in names]
        for names in (inputs, outputs)
    )
    return helper.make_graph(list(nodes), "body", given, made)


def computed(model: Any, *inputs: Array) -> list[Array]:
    network = Network.from_onnx(model)
    given = dict(zip((one.name for one in network.inputs), inputs, strict=True))
    graph = network.graph({name: array.shape for name, array in given.items()})
    return list(evaluate(graph, given).values())


def refusal(model: Any) -> str:
    with pytest.raises(UnsupportedError) as caught:
        Network.from_onnx(model).graph()
    (one,) = caught.value.unsupported
    return str(one)


def branches() -> dict[str, Any]:
    twice = helper.make_node("Add", ["x", "x"], ["twice"])
    return {
        "then_branch": body([twice], [], ["twice"]),
        "else_branch": body([helper.make_node("Neg", ["x"], ["less"])], [], ["less"]),
    }


def test_a_computed_condition_chooses_between_the_results_of_both_branches() -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "zero"], ["condition"]),
        helper.make_node("If", ["condition"], ["y"], **branches()),
    ]
    model = onnx_model(nodes, {"x": (3,)}, weights={"zero": np.float32(0)})
    assert computed(model, np.array([1.0, 2.0, -3.0]))[0].tolist() == [2, 4, -6]
    assert computed(model, np.array([-1.0, -2.0, -3.0]))[0].tolist() == [1, 2, 3]


def counting_loop(limit: int, condition: Sequence[Any], cond_out: str) -> Any:
    inner = body(
        [
            *condition,
            helper.make_node("Cast", ["i"], ["real"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["h", "real"], ["h_out"]),
            helper.make_node("Mul", ["h_out", "x"], ["row"]),
        ],
        *(["i", "c", "h"], [cond_out, "h_out", "row"]),
    )
    return onnx_model(
        [helper.make_node("Loop", ["limit", "", "x"], ["last", "rows"], body=inner)],
        {"x": (2,)},
        ("last", "rows"),
        {"limit": np.int64(limit), "three": np.int64(3)},
    )


def test_a_loop_is_unrolled_and_its_rows_are_stacked() -> None:
    same = [helper.make_node("Identity", ["c"], ["c_out"])]
    last, rows = computed(counting_loop(4, same, "c_out"), np.array([1.0, 2.0]))
    assert last.tolist() == [7, 8]
    assert rows.tolist() == [[1, 4], [2, 6], [4, 10], [7, 16]]


def test_a_loop_ends_when_its_constant_condition_says_so() -> None:
    until = [helper.make_node("Less", ["i", "three"], ["c_out"])]
    last, rows = computed(counting_loop(100, until, "c_out"), np.array([0.0, 1.0]))
    assert last.tolist() == [6, 7]
    assert len(rows) == 4


@pytest.mark.parametrize(
    ("limit", "condition", "why"),
    [
        (10**9, [helper.make_node("Identity", ["c"], ["c_out"])], "more than 4,096 rounds"),
        (
            4,
            [
                helper.make_node("ReduceSum", ["h"], ["sum"], keepdims=0),
                helper.make_node("Greater", ["sum", "sum"], ["c_out"]),
            ],
            "whether it goes on is computed",
        ),
    ],
    ids=("long", "computed"),
)
def test_a_loop_without_a_known_end_is_refused(limit: int, condition: Any, why: str) -> None:
    assert why in refusal(counting_loop(limit, condition, "c_out"))


def test_an_unsupported_operator_within_a_loop_is_listed_once() -> None:
    inner = body(
        [
            helper.make_node("RandomNormalLike", ["h"], ["noise"]),
            helper.make_node("Add", ["h", "noise"], ["h_out"]),
            helper.make_node("Identity", ["c"], ["c_out"]),
        ],
        *(["i", "c", "h"], ["c_out", "h_out"]),
    )
    node = helper.make_node("Loop", ["limit", "", "x"], ["y"], body=inner)
    model = onnx_model([node], {"x": (2,)}, weights={"limit": np.int64(3)})
    assert "it is random" in refusal(model)


def test_a_scan_walks_along_its_axes_in_both_directions() -> None:
    inner = body(
        [
            helper.make_node("Add", ["sum", "a"], ["new"]),
            helper.make_node("Mul", ["new", "b"], ["row"]),
        ],
        *(["sum", "a", "b"], ["new", "row"]),
    )
    node = helper.make_node(
        *("Scan", ["first", "x0", "x1"], ["last", "rows"]),
        body=inner,
        num_scan_inputs=2,
        scan_input_axes=[0, 1],
        scan_input_directions=[0, 1],
        scan_output_axes=[1],
        scan_output_directions=[1],
    )
    model = onnx_model([node], {"first": (2,), "x0": (3, 2), "x1": (2, 3)}, ("last", "rows"))
    a, b = np.arange(6.0).reshape(3, 2), np.arange(6.0).reshape(2, 3)
    last, rows = computed(model, np.ones(2), a, b)
    sums = 1 + np.cumsum(a, 0)
    np.testing.assert_array_equal(last, sums[-1])
    np.testing.assert_array_equal(rows, (sums * b.T[::-1])[::-1].T)


def test_pieces_of_a_sequence_are_picked_changed_and_joined() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "two"], ["pieces"], axis=1),
        helper.make_node("SequenceAt", ["pieces", "last"], ["tail"]),
        helper.make_node("SequenceErase", ["pieces", "zero"], ["fewer"]),
        helper.make_node("SequenceInsert", ["fewer", "tail", "zero"], ["more"]),
        helper.make_node("SequenceLength", ["more"], ["count"]),
        helper.make_node("ConcatFromSequence", ["more"], ["y"], axis=1),
    ]
    weights = {"two": np.int64(2), "last": np.int64(-1), "zero": np.int64(0)}
    model = onnx_model(nodes, {"x": (1, 5)}, ("y", "count"), weights)
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    y, count = computed(model, np.arange(5.0).reshape(1, 5))
    assert y.tolist() == [[4, 2, 3, 4]]
    assert count == 3


def test_what_is_no_tensor_is_refused_by_name() -> None:
    made = helper.make_node("SequenceConstruct", ["x", "x"], ["pair"])
    model = onnx_model([made], {"x": (1,)}, ("pair",))
    model.graph.output[0].CopyFrom(
        helper.make_tensor_sequence_value_info("pair", TensorProto.FLOAT, None)
    )
    assert "it is a sequence" in refusal(model)


def test_the_last_place_of_a_sequence_is_not_beyond_it() -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["pair"]),
        helper.make_node("SequenceAt", ["pair", "two"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": (1,)}, weights={"two": np.int64(2)})
    assert "place 2 of 2" in refusal(model)
