"""Indices out of range are refused; kernels would take the nearest element for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from networks_for_tests import graph_of
from plans_for_tests import compiled

from convfind.handle import Handle
from convfind_networks import Graph, GraphBuilder, Value
from convfind_networks.errors import BindingError, GraphError
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    Cast,
    Gather,
    GatherElements,
    ScatterElements,
)
from convfind_networks.plan import Plan
from convfind_networks.plan.profile import random_inputs
from convfind_networks.tensor_type import TensorType

INT64, FLOAT32 = np.dtype(np.int64), np.dtype(np.float32)
TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)


def embedding(*, casts: bool = False) -> Graph:
    """Rows of a table of five and elements of one of three, by the same numbers."""
    builder = GraphBuilder()
    ids = builder.input("ids", TensorType(INT64, (2, 3)))
    small = builder.input("small", TensorType(FLOAT32, (2, 3)))
    numbers = builder.add(Cast(np.dtype(np.int32)), ids) if casts else ids
    rows = builder.add(Gather(0), builder.constant(TABLE, name="table"), numbers)
    picked = builder.add(GatherElements(1), small, numbers)
    return builder.graph({"rows": rows, "picked": picked})


def inputs(*ids: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    small = np.arange(6, dtype=np.float32).reshape(2, 3)
    return {"ids": np.array(ids, np.int64).reshape(2, 3), "small": small}


@pytest.mark.parametrize("casts", [False, True])
def test_indices_choose_what_all_of_their_readers_have(
    casts: bool, handle: Handle, tmp_path: Path
) -> None:
    made = compiled(handle, embedding(casts=casts))
    made.save(tmp_path / "saved.plan")
    for plan in (made, Plan.load(tmp_path / "saved.plan", handle)):
        assert [port.index_size for port in plan.inputs] == [3, 0]
        given = inputs(0, 1, 2, -3, -2, -1)
        right = plan.run(given)
        np.testing.assert_array_equal(right["rows"], TABLE[given["ids"]])
        for wrong in (3, -4, 2**40):
            with pytest.raises(BindingError, match=r"input ids: indices from .* 3 elements"):
                plan.run(inputs(0, 0, 0, 0, 0, wrong))


def test_indices_of_what_is_written_are_in_range(handle: Handle) -> None:
    builder = GraphBuilder()
    x, updates = (builder.input(name, TensorType(FLOAT32, (4, 3))) for name in ("x", "updates"))
    at = builder.input("at", TensorType(INT64, (4, 3)))
    graph = builder.graph({"y": builder.add(ScatterElements(0), x, at, updates)})
    plan = compiled(handle, graph)
    assert [port.index_size for port in plan.inputs] == [0, 0, 4]
    zeros, ones = np.zeros((4, 3), np.float32), np.ones((4, 3), np.float32)
    given = {"x": zeros, "updates": ones, "at": np.full((4, 3), -1)}
    np.testing.assert_array_equal(plan.run(given)["y"].sum(axis=1), [0, 0, 0, 3])
    with pytest.raises(BindingError, match="input at: indices from 4 to 4"):
        plan.run({**given, "at": np.full((4, 3), 4)})


def test_an_array_that_comes_again_is_looked_at_again(handle: Handle) -> None:
    plan, given = compiled(handle, embedding()), inputs(0, 1, 2, 0, 1, 2)
    for name in given:  # memory that runs keep
        lain = np.empty(given[name].size * 8 + 64, np.uint8)
        begin = -lain.ctypes.data % 64
        kind = given[name].dtype
        kept = lain[begin : begin + given[name].nbytes].view(kind).reshape(2, 3)
        kept[:] = given[name]
        given[name] = kept
    plan.run(given)
    plan.run(given)
    given["ids"][1, 2] = 7
    with pytest.raises(BindingError, match="indices from 0 to 7"):
        plan.run(given)
    given["ids"][1, 2] = 1
    np.testing.assert_array_equal(plan.run(given)["rows"], TABLE[given["ids"]])


def test_constants_are_refused_by_their_node(handle: Handle) -> None:
    def picked(builder: GraphBuilder, x: Value) -> Value:
        at = builder.constant(np.array([0, 5]), name="at")
        chosen = builder.add(Gather(1), x, at, name="pick")
        return builder.add(Activate(Activation(ActivationKind.RELU)), chosen)

    graph = graph_of(picked, (2, 5, 3))
    with pytest.raises(GraphError, match="pick: indices from 0 to 5, and there are 5 elements"):
        compiled(handle, graph)


def test_drawn_indices_are_in_range(handle: Handle) -> None:
    plan = compiled(handle, embedding())
    drawn = random_inputs(plan)["ids"]
    assert drawn.min() >= 0
    assert drawn.max() == 2
    assert plan.profile(rounds=1).tasks
