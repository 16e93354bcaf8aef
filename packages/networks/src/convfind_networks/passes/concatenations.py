"""Concatenations that begin as others do: the others are joined with what is left."""

from __future__ import annotations

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import Concat


def share_beginnings(graph: Graph) -> Graph:
    """Let concatenations grow out of those before them, as the layers of a dense block do.

    Where each joins the results of all layers so far, all but one of them are joined already.
    """
    edit = GraphEditor(graph)
    known: dict[tuple[Concat, tuple[str, ...]], str] = {}
    for node in edit:
        if not isinstance(node.op, Concat):
            continue
        known.setdefault((node.op, node.inputs), node.output)
        for count in range(len(node.inputs) - 1, 1, -1):
            before = known.get((node.op, node.inputs[:count]))
            if before is not None:
                inputs = (before, *node.inputs[count:])
                edit.replace([node], Node(node.op, inputs, node.outputs, node.name))
                break
    return edit.graph()
