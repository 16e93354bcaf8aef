"""The reference evaluator: a graph in NumPy, in float64, as slow and right as can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from convfind_networks.errors import BindingError
from convfind_networks.graph import Graph
from convfind_networks.ops.op import as_tuple, widened
from convfind_networks.tensor_type import Array


def evaluate(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Compute the outputs of a graph, by public name.

    Floating-point tensors are float64 from the first to the last, whatever their type in the
    graph; only a `Cast` rounds, because a model that has one says so. The difference to a run in
    the graph's own types is therefore the rounding error of that run.

    Raises:
        BindingError: an input is missing, unknown, or of another shape.
    """
    memory: dict[str, Array] = {}
    for name in graph.inputs:
        if name not in inputs:
            raise BindingError(f"input {name} is missing: {graph.values[name].type}")
        array, kind = np.asarray(inputs[name]), graph.values[name].type
        if array.shape != kind.shape:
            raise BindingError(f"input {name} is {kind}, not {array.shape}")
        memory[name] = array.astype(np.float64 if kind.is_float else kind.dtype)
    if unknown := set(inputs) - set(graph.inputs):
        raise BindingError(f"no such input: {', '.join(sorted(unknown))}")

    def read(name: str) -> Array:
        data = graph.values[name].data
        return memory[name] if data is None else widened(data)

    left = dict(graph.uses)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            results = as_tuple(node.op.evaluate(*map(read, node.inputs)))
            for name, result in zip(node.outputs, results, strict=True):
                kind = graph.values[name].type
                memory[name] = result if kind.is_float else result.astype(kind.dtype)
            for name in node.inputs:
                left[name] -= 1
                if not left[name]:
                    memory.pop(name, None)  # large networks do not fit all at once
    return {public: read(name) for public, name in graph.outputs.items()}
