"""`index_sizes`: the inputs of a graph that are indices, and what they choose among.

Kernels take an index out of range for the nearest element, or write nothing there, and nobody would
notice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convfind_networks.errors import BindingError, GraphError
from convfind_networks.graph import Graph, Node
from convfind_networks.ops import (
    Cast,
    Concat,
    Expand,
    Gather,
    GatherElements,
    GatherND,
    ScatterElements,
    ScatterND,
    Transpose,
)
from convfind_networks.plan.schedule import Port
from convfind_networks.tensor_type import Array

#: How many elements indices choose among: one number, or one for each place in the last dimension.
_Sizes = tuple[int, ...]


def index_sizes(graph: Graph) -> dict[str, _Sizes]:
    """Return how many elements each input that is indices chooses among, the fewest of several.

    That is one number for all of its indices, or one for each place in its last dimension, as
    tuples of indices have it.

    Raises:
        GraphError: constant indices are out of range; names the node that reads them.
    """
    found: dict[str, _Sizes] = {}
    for node in reversed(graph.nodes):
        for name, sizes in (*_chosen(graph, node), *_passed_on(graph, node, found)):
            data = graph.values[name].data
            if data is not None and (wrong := _out_of_range(data, sizes)):
                raise GraphError(f"{node.name}: {wrong}")
            found[name] = _fewest(found.get(name, sizes), sizes)
    return {name: found[name] for name in graph.inputs if name in found}


def check_indices(port: Port, array: Array) -> None:
    """Raise `BindingError` where an input on the host has indices that are out of range."""
    if port.index_sizes and (wrong := _out_of_range(array, port.index_sizes)):
        raise BindingError(f"input {port.name}: {wrong}")


def _chosen(graph: Graph, node: Node) -> Iterator[tuple[str, _Sizes]]:
    """Yield the indices that an operation reads, and what they choose among."""
    op = node.op
    if not isinstance(op, Gather | GatherElements | GatherND | ScatterElements | ScatterND):
        return
    shape, indices = graph.values[node.inputs[0]].type.shape, node.inputs[1]
    if isinstance(op, GatherND | ScatterND):
        begin = op.batch_dims if isinstance(op, GatherND) else 0
        yield indices, _short(shape[begin : begin + graph.values[indices].shape[-1]])
    else:
        yield indices, (shape[op.axis],)


def _passed_on(graph: Graph, node: Node, found: dict[str, _Sizes]) -> Iterator[tuple[str, _Sizes]]:
    """Yield the inputs all of whose numbers are in a result that is indices."""
    sizes, op = found.get(node.outputs[0], ()), node.op
    if not sizes:
        return
    shape, is_tuples = graph.values[node.outputs[0]].shape, len(sizes) > 1
    if is_tuples and isinstance(op, Concat) and op.axis == len(shape) - 1:
        begin = 0
        for name in node.inputs:
            end = begin + graph.values[name].shape[-1]
            if end > begin:
                yield name, _short(sizes[begin:end])
            begin = end
    elif isinstance(op, Cast | Concat | Expand | Transpose) or op.is_view:
        for name in node.inputs:
            keeps = graph.values[name].shape[-1:] == shape[-1:] and not isinstance(op, Transpose)
            if keeps or not is_tuples:
                yield name, sizes


def _short(sizes: _Sizes) -> _Sizes:
    return sizes[:1] if len(set(sizes)) == 1 else sizes


def _fewest(a: _Sizes, b: _Sizes) -> _Sizes:
    return tuple(np.minimum(a, b).tolist())


def _out_of_range(indices: Array, sizes: _Sizes) -> str:
    """Say what is wrong with indices; those below 0 count from the end. Empty if nothing is."""
    if not indices.size:
        return ""
    for at, size in enumerate(sizes):
        column = indices if len(sizes) == 1 else indices[..., at]
        least, most = int(column.min()), int(column.max())
        if not -size <= least <= most < size:
            return f"indices from {least} to {most}, and there are {size} elements"
    return ""
