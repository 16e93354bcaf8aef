"""``convfind network explain``: what of a network has to run, how it fuses, what it needs."""

from __future__ import annotations

from typing import Any

import click

from convfind.cli.app import App, Command, new_table
from convfind.text import format_bytes
from convfind_networks.cli.options import takes_network
from convfind_networks.graph import Graph, Node
from convfind_networks.layouts import channels_last_where_possible
from convfind_networks.memory import MemoryPlan, plan_memory
from convfind_networks.model import Shapes
from convfind_networks.network import Network
from convfind_networks.ops import Convolution, Linear
from convfind_networks.passes import optimize


@click.command(cls=Command)
@click.pass_obj
@takes_network
@click.option("--no-passes", is_flag=True, help="Show the network as the model has it.")
def explain(app: App, network: Network, shapes: Shapes, no_passes: bool) -> None:
    """Show what of MODEL has to run: operations, shapes, work, fusion, memory; runs nothing.

    If the model has operators that are not supported, all of them are listed instead, with the
    reason.

    \b
    Examples:
      convfind network explain resnet50.onnx --set batch=4
      convfind network explain model.pt2 --no-passes --json
    """
    imported = network.graph(shapes)
    graph = imported if no_passes else optimize(imported)
    plan = plan_memory(graph)
    copies = len(channels_last_where_possible(graph).copies)
    if app.json:
        app.emit(_document(network, imported, graph, plan, copies))
        return
    table = new_table("operation", "result", "shape", "MMAC", "at", right=("MMAC", "at"))
    for node in graph.nodes:
        kind = graph.values[node.output].type
        macs, at = _macs(graph, node), plan.offset(node.output)
        table.add_row(
            str(node.op),
            node.output,
            str(kind),
            f"{macs / 1e6:,.1f}" if macs else "",
            "" if at is None else f"{at:,}",
        )
    app.print(table)
    app.print(
        f"{len(graph.nodes):,} operations of {len(imported.nodes):,} in the model, "
        f"{graph.macs / 1e9:,.2f} GMAC, {format_bytes(graph.constant_bytes)} of weights",
        f"memory between operations: {format_bytes(plan.nbytes)}, at least "
        f"{format_bytes(plan.lower_bound)}; each by itself {format_bytes(_each(graph))}",
        f"channels last where possible: {copies} copies between layouts",
    )


def _document(
    network: Network, imported: Graph, graph: Graph, plan: MemoryPlan, copies: int
) -> dict[str, Any]:
    return {
        "model": network.name,
        "inputs": [_value_json(graph, name) for name in graph.inputs],
        "outputs": [
            {**_value_json(graph, value), "name": public} for public, value in graph.outputs.items()
        ],
        "operations": [_node_json(graph, node, plan) for node in graph.nodes],
        "imported_operations": len(imported.nodes),
        "macs": graph.macs,
        "weights_bytes": graph.constant_bytes,
        "memory": {
            "bytes": plan.nbytes,
            "lower_bound": plan.lower_bound,
            "unshared_bytes": _each(graph),
        },
        "channels_last_copies": copies,
        "unsupported": [],
    }


def _node_json(graph: Graph, node: Node, plan: MemoryPlan) -> dict[str, Any]:
    epilogue = node.op.epilogue if isinstance(node.op, (Convolution, Linear)) else None
    activation = epilogue.activation if epilogue else None
    return {
        "name": node.name,
        "operation": node.op.kind,
        "text": str(node.op),
        "inputs": [_value_json(graph, name) for name in node.inputs],
        "outputs": [
            {**_value_json(graph, name), "offset": plan.offset(name)} for name in node.outputs
        ],
        "macs": _macs(graph, node),
        "epilogue": None
        if epilogue is None
        else {
            "bias": epilogue.bias,
            "residual": epilogue.residual,
            "activation": None if activation is None else str(activation),
            "residual_last": epilogue.residual_last,
        },
    }


def _value_json(graph: Graph, name: str) -> dict[str, Any]:
    value = graph.values[name]
    return {
        "name": name,
        "dtype": value.dtype.name,
        "shape": list(value.shape),
        "constant": value.is_constant,
    }


def _macs(graph: Graph, node: Node) -> int:
    return node.op.macs(*graph.types(node.inputs))


def _each(graph: Graph) -> int:
    """Return the bytes of all computed values, were none to share memory."""
    return sum(graph.values[name].type.nbytes for node in graph.nodes for name in node.outputs)
