"""Dead code: nodes whose results nobody reads."""

from __future__ import annotations

from convfind_networks.graph import Graph


def remove_dead_code(graph: Graph) -> Graph:
    """Remove the nodes that no output depends on, and constants that no node reads."""
    needed = set(graph.outputs.values())
    kept = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    for node in kept:
        needed.update(node.outputs)
    values = {n: v for n, v in graph.values.items() if n in needed or n in graph.inputs}
    return Graph(graph.inputs, graph.outputs, tuple(reversed(kept)), values)
