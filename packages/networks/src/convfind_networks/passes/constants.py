"""Constants: what depends on nothing else is computed once, before the network runs."""

from __future__ import annotations

from convfind_networks.graph import Graph, GraphBuilder, Value


def fold_constants(graph: Graph) -> Graph:
    """Compute every node that reads nothing but constants; the builder does it."""
    builder = GraphBuilder()
    values: dict[str, Value] = {}
    for name in graph.inputs:
        values[name] = builder.input(name, graph.values[name].type)

    def value(name: str) -> Value:
        if name not in values:
            values[name] = builder.constant(graph.values[name].data, name=name)
        return values[name]

    for node in graph.nodes:
        results = builder.add_all(node.op, *map(value, node.inputs), name=node.output)
        values.update(zip(node.outputs, results, strict=True))
    return builder.graph({public: value(name) for public, name in graph.outputs.items()})
