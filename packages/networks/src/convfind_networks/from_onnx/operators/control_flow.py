"""If, Loop and Scan: graphs within nodes, which are unrolled when a model is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.from_onnx.sequence import Imported
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import Concat, Slice, Where

#: The longest loop: each round of it becomes nodes of its own.
MOST_ROUNDS = 4096


def if_(node: OnnxNode) -> tuple[Imported, ...]:
    """If: the branch that a constant condition chooses, or both and a choice between them."""
    condition = node.input(0)
    if condition.data is not None:
        chosen = bool(condition.data.reshape(()).item())
        return tuple(node.results_of("then_branch" if chosen else "else_branch"))
    both = zip(node.results_of("then_branch"), node.results_of("else_branch"), strict=True)
    return tuple(_either(node, node.reshape(condition), a, b) for a, b in both)


def _either(node: OnnxNode, condition: Value, a: Imported, b: Imported) -> Value:
    if not isinstance(a, Value) or not isinstance(b, Value) or a.type != b.type:
        raise NotSupported("its condition is computed, and its branches have results of two types")
    return node.add(Where(), condition, a, b)


def loop(node: OnnxNode) -> tuple[Imported, ...]:
    """Loop, round after round, as often as constants say."""
    limit = None if node.optional(0) is None else int(node.array(0, "the number of rounds").item())
    goes_on = True if node.optional(1) is None else bool(node.array(1, "its condition").item())
    carried = node.imported(2)
    rows: list[Sequence[Value]] = []
    rounds = 0
    while goes_on and (limit is None or rounds < limit):
        if rounds == MOST_ROUNDS:
            raise NotSupported(f"more than {MOST_ROUNDS:,} rounds")
        at = node.const(np.asarray(rounds, np.int64))
        going, *results = node.results_of("body", at, node.const(np.asarray(True)), *carried)
        data = going.data if isinstance(going, Value) else None
        if data is None:
            raise NotSupported("whether it goes on is computed; it has to be constant")
        goes_on = bool(data.item())
        carried = results[: len(carried)]
        rows.append(_tensors(results[len(carried) :]))
        rounds += 1
    if not rows and len(node.proto.output) > len(carried):
        raise NotSupported("no round, so that the shapes of its results are not known")
    return (*carried, *(_stacked(node, column, 0) for column in zip(*rows, strict=True)))


def scan(node: OnnxNode) -> tuple[Imported, ...]:
    """Scan: a round for each slice of its inputs."""
    if node.opset < 9:
        raise NotSupported(f"opset {node.opset} of it; convert the model to 9 or later")
    count = node.integer("num_scan_inputs", 0)
    states: Sequence[Imported] = node.values()[:-count]
    inputs = node.values()[-count:]
    axes = [
        axis_of(axis, x.type.rank)
        for axis, x in zip(node.integers("scan_input_axes", (0,) * count), inputs, strict=True)
    ]
    reversed_ = node.integers("scan_input_directions", (0,) * count)
    rounds = inputs[0].shape[axes[0]]
    if not 0 < rounds <= MOST_ROUNDS:
        raise NotSupported(f"{rounds:,} rounds; 1 to {MOST_ROUNDS:,} are possible")
    rows: list[Sequence[Value]] = []
    for at in range(rounds):
        slices = [
            _row(node, x, axis, rounds - 1 - at if backwards else at)
            for x, axis, backwards in zip(inputs, axes, reversed_, strict=True)
        ]
        results = node.results_of("body", *states, *slices)
        states = results[: len(states)]
        rows.append(_tensors(results[len(states) :]))
    columns = list(zip(*rows, strict=True))
    out_axes = node.integers("scan_output_axes", (0,) * len(columns))
    turned = node.integers("scan_output_directions", (0,) * len(columns))
    stacked = [
        _stacked(node, column[:: -1 if backwards else 1], axis_of(axis, column[0].type.rank + 1))
        for column, axis, backwards in zip(columns, out_axes, turned, strict=True)
    ]
    return (*states, *stacked)


def _tensors(results: Sequence[Imported]) -> list[Value]:
    tensors = [one for one in results if isinstance(one, Value)]
    if len(tensors) < len(results):
        raise NotSupported("a sequence in each round")
    return tensors


def _row(node: OnnxNode, x: Value, axis: int, at: int) -> Value:
    row = node.add(Slice.of(x.shape, {axis: slice(at, at + 1)}), x)
    return node.reshape(row, *x.shape[:axis], *x.shape[axis + 1 :])


def _stacked(node: OnnxNode, rows: Sequence[Value], axis: int) -> Value:
    if len({row.type for row in rows}) > 1:
        raise NotSupported("results of other shapes in each round")
    shape = rows[0].shape
    return node.add(
        Concat(axis), *(node.reshape(row, *shape[:axis], 1, *shape[axis:]) for row in rows)
    )


OPERATORS: OnnxOperators = {"If": if_, "Loop": loop, "Scan": scan}
