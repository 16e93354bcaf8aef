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
    Concat,
    Expand,
    Gather,
    GatherElements,
    GatherND,
    Reshape,
    ScatterElements,
    ScatterND,
)
from convfind_networks.plan import Plan
from convfind_networks.plan.profile import random_inputs
from convfind_networks.tensor_type import TensorType

INT32, INT64, FLOAT32 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float32)
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
        assert [port.index_sizes for port in plan.inputs] == [(3,), ()]
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
    assert [port.index_sizes for port in plan.inputs] == [(), (), (4,)]
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


def test_tuples_of_indices_choose_among_the_sizes_of_their_dimensions(
    handle: Handle, tmp_path: Path
) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 5, 3)))
    at = builder.input("at", TensorType(INT64, (2, 4, 2)))
    graph = builder.graph(
        {"y": builder.add(GatherND(1), x, at), "z": builder.add(GatherND(), x, at)}
    )
    made = compiled(handle, graph)
    made.save(tmp_path / "saved.plan")
    numbers = np.arange(30, dtype=np.float32).reshape(2, 5, 3)
    where = np.array([[[0, 2], [1, -3], [-1, 0], [-2, 1]], [[1, 1], [0, 0], [-1, -1], [-2, 2]]])
    for plan in (made, Plan.load(tmp_path / "saved.plan", handle)):
        assert [port.index_sizes for port in plan.inputs] == [(), (2, 3)]
        found = plan.run({"x": numbers, "at": where})
        batch = np.arange(2)[:, None]
        np.testing.assert_array_equal(found["y"], numbers[batch, where[..., 0], where[..., 1]])
        np.testing.assert_array_equal(found["z"], numbers[where[..., 0], where[..., 1]])
        for column, wrong in ((0, 2), (0, -3), (1, 3), (1, -4)):
            at_wrong = where.copy()
            at_wrong[1, 2, column] = wrong
            with pytest.raises(BindingError, match=rf"at: .*, and there are {column + 2} elements"):
                plan.run({"x": numbers, "at": at_wrong})
    drawn = random_inputs(made)["at"]
    assert drawn.reshape(-1, 2).min(axis=0).tolist() == [0, 0]
    assert drawn.reshape(-1, 2).max(axis=0).tolist() == [1, 2]


def test_columns_of_tuples_are_looked_at_one_by_one(handle: Handle) -> None:
    """As PyTorch's ``x[rows, columns] = updates`` with a row for several columns."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (5, 3)))
    rows = builder.input("rows", TensorType(INT32, (2, 1)))
    columns = builder.input("columns", TensorType(INT64, (3,)))
    updates = builder.input("updates", TensorType(FLOAT32, (2, 3)))
    parts = [
        builder.add(Reshape((2, 3, 1)), builder.add(Expand((2, 3)), one))
        for one in (builder.add(Cast(INT64), rows), columns)
    ]
    graph = builder.graph(
        {"y": builder.add(ScatterND(), x, builder.add(Concat(2), *parts), updates)}
    )
    plan = compiled(handle, graph)
    assert [port.index_sizes for port in plan.inputs] == [(), (5,), (3,), ()]
    given = {
        "x": np.zeros((5, 3), np.float32),
        "rows": np.array([[-1], [3]], np.int32),
        "columns": np.array([2, -2, 0]),
        "updates": np.arange(1, 7, dtype=np.float32).reshape(2, 3),
    }
    right = np.zeros((5, 3), np.float32)
    right[given["rows"], given["columns"]] = given["updates"]
    np.testing.assert_array_equal(plan.run(given)["y"], right)
    with pytest.raises(BindingError, match="rows: indices from 3 to 5, and there are 5"):
        plan.run({**given, "rows": np.array([[5], [3]], np.int32)})
    with pytest.raises(BindingError, match="columns: indices from -4 to 2, and there are 3"):
        plan.run({**given, "columns": np.array([2, -4, 0])})


def test_constant_columns_are_refused_by_their_node(handle: Handle) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    at = builder.constant(np.array([[0, 0], [1, 3]]), name="at")
    graph = builder.graph({"y": builder.add(GatherND(), x, at, name="pick")})
    with pytest.raises(GraphError, match="pick: indices from 0 to 3, and there are 3 elements"):
        compiled(handle, graph)
