"""`index_sizes`: the inputs of a graph that are indices, and what they choose among.

Kernels take an index out of range for the nearest element, or write nothing there, and nobody would
notice.
"""

from __future__ import annotations

from convfind_networks.errors import BindingError, GraphError
from convfind_networks.graph import Graph
from convfind_networks.ops import Cast, Gather, GatherElements, ScatterElements
from convfind_networks.plan.schedule import Port
from convfind_networks.tensor_type import Array


def index_sizes(graph: Graph) -> dict[str, int]:
    """Return how many elements each input that is indices chooses among, the fewest of several.

    Raises:
        GraphError: constant indices are out of range; names the node.
    """
    sizes: dict[str, int] = {}
    for node in graph.nodes:
        op = node.op
        if not isinstance(op, Gather | GatherElements | ScatterElements):
            continue
        size = graph.values[node.inputs[0]].type.shape[op.axis]
        name = node.inputs[1]
        while (producer := graph.producers.get(name)) is not None and _keeps(producer.op):
            name = producer.inputs[0]
        data = graph.values[name].data
        if data is not None and (wrong := _out_of_range(data, size)):
            raise GraphError(f"{node.name}: {wrong}")
        if name in graph.inputs:
            sizes[name] = min(sizes.get(name, size), size)
    return sizes


def check_indices(port: Port, array: Array) -> None:
    """Raise `BindingError` where an input on the host has indices that are out of range."""
    if port.index_size and (wrong := _out_of_range(array, port.index_size)):
        raise BindingError(f"input {port.name}: {wrong}")


def _keeps(op: object) -> bool:
    """Return whether an operation's result has the numbers of its input."""
    return isinstance(op, Cast) or getattr(op, "is_view", False)


def _out_of_range(indices: Array, size: int) -> str:
    """Say what is wrong with indices; those below 0 count from the end. Empty if nothing is."""
    if not indices.size:
        return ""
    least, most = int(indices.min()), int(indices.max())
    if -size <= least and most < size:
        return ""
    return f"indices from {least} to {most}, and there are {size} elements"
