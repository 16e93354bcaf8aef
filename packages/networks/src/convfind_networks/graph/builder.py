"""`GraphBuilder`: makes a graph, one operation after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.graph.graph import Graph
from convfind_networks.graph.node import Node
from convfind_networks.graph.value import Value
from convfind_networks.ops.op import Op, as_tuple, run_op
from convfind_networks.tensor_type import Array, TensorType

#: Elements of the largest constant that is computed here rather than when the network runs.
LARGEST_FOLDED = 2**28


class GraphBuilder:
    """Makes a graph: gives names, infers types, and computes what depends on constants only.

    Nodes that compute a model's shapes are therefore gone when the graph is made: shapes are known.
    """

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._nodes: list[Node] = []
        self._values: dict[str, Value] = {}
        self._made: dict[str, int] = {}

    def input(self, name: str, kind: TensorType) -> Value:
        """Add an input of the graph."""
        if name in self._values:
            raise GraphError(f"input {name} is there twice")
        self._inputs.append(name)
        return self._if_any(self._keep(Value(name, kind)))

    def constant(self, data: Any, dtype: Any = None, name: str = "constant") -> Value:
        """Add a constant: an array, or what NumPy makes one of."""
        return self._keep(Value.constant(self.unused(name), np.asarray(data, dtype)))

    def add(self, op: Op, *inputs: Value, name: str = "") -> Value:
        """Add an operation with one result.

        Raises:
            GraphError: the types of the inputs do not allow it; names the node.
        """
        (result,) = self.add_all(op, *inputs, name=name)
        return result

    def add_all(self, op: Op, *inputs: Value, name: str = "") -> tuple[Value, ...]:
        """Add an operation and return all of its results."""
        name = name or op.kind
        try:
            types = as_tuple(op.infer(*(value.type for value in inputs)))
            folded = _folded(op, inputs, types)
        except GraphError as exc:
            raise GraphError(f"{name}: {exc}") from exc
        if folded is None and not any(kind.elements for kind in types):
            folded = tuple(np.empty(kind.shape, kind.dtype) for kind in types)
        if folded is not None:
            return tuple(self.constant(data, name=name) for data in folded)
        results = tuple(self._keep(Value(self.unused(name), kind)) for kind in types)
        read, written = (tuple(value.name for value in some) for some in (inputs, results))
        self._nodes.append(Node(op, read, written, name))
        return tuple(map(self._if_any, results))

    def _if_any(self, value: Value) -> Value:
        """Return a value, or a constant in its place where it has no elements: that is known."""
        if value.type.elements:
            return value
        return self.constant(np.empty(value.shape, value.dtype), name=value.name)

    def graph(self, outputs: Mapping[str, Value]) -> Graph:
        """Return the graph with these results, by public name."""
        names = {public: value.name for public, value in outputs.items()}
        return Graph(tuple(self._inputs), names, tuple(self._nodes), self._values)

    def unused(self, hint: str) -> str:
        """Return a name that no value has: the hint itself or the hint with a number."""
        name = hint
        while name in self._values:
            self._made[hint] = self._made.get(hint, 0) + 1
            name = f"{hint}.{self._made[hint]}"
        return name

    def _keep(self, value: Value) -> Value:
        self._values[value.name] = value
        return value


def _folded(
    op: Op, inputs: Sequence[Value], types: Sequence[TensorType]
) -> tuple[Array, ...] | None:
    """Return the results of an operation on constants, or None where it has other inputs."""
    data = [value.data for value in inputs if value.data is not None]
    if not inputs or len(data) < len(inputs):
        return None
    if sum(kind.elements for kind in (*types, *(v.type for v in inputs))) > LARGEST_FOLDED:
        return None
    return run_op(op, data, types)
