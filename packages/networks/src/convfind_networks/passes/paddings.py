"""Paddings: what an explicit `Pad` adds becomes the padding of the operation that reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import (
    AveragePool,
    Convolution,
    Geometry,
    MaxPool,
    Op,
    Pad,
    PadMode,
    Window,
)


def fold_paddings(graph: Graph) -> Graph:
    """Let convolutions and poolings pad for themselves."""
    edit = GraphEditor(graph)
    for node in edit:
        before = edit.producer(node.inputs[0]) if node.inputs else None
        if before is not None and isinstance(before.op, Pad):
            op = _padded(node.op, before.op)
            if op is not None:
                inputs = (before.inputs[0], *node.inputs[1:])
                edit.replace([node], Node(op, inputs, node.outputs, node.name))
    return edit.graph()


def _padded(op: Op, pad: Pad) -> Op | None:
    """Return an operation that pads as well, or None where that is another result."""
    if pad.mode is not PadMode.CONSTANT or not pad.is_spatial:
        return None
    match op:
        case Convolution(geometry=geometry) if pad.value == 0 and not geometry.transposed:
            return replace(op, geometry=replace(geometry, **_grown(geometry, pad)))
        case MaxPool(window=window, indices=False) if pad.value == float("-inf"):
            return replace(op, window=replace(window, **_grown(window, pad)))
        case AveragePool(window=window) if pad.value == 0:
            # Explicit padding counts in the divisor; padding of the pool's own would
            # have to as well.
            if window.is_padded and not op.count_include_pad:
                return None
            grown = replace(window, **_grown(window, pad))
            return replace(op, window=grown, count_include_pad=True)
    return None


def _grown(own: Geometry | Window, pad: Pad) -> dict[str, Any]:
    return {
        field: tuple(a + b for a, b in zip(getattr(own, field), more[2:], strict=True))
        for field, more in (("padding", pad.begin), ("padding_end", pad.end))
    }
