"""Taps of filters that meet nothing but padding, wherever the filter lies, are cut off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from convfind.problem.geometry import taps_in_use
from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import Convolution


def cut_idle_taps(graph: Graph) -> Graph:
    """Cut off the outer taps of dilated filters that are wider than small images.

    On an image of 16x16 a 3x3 filter with a dilation of 24 is one of 1x1.
    """
    edit = GraphEditor(graph)
    for node in edit:
        if isinstance(node.op, Convolution) and not node.op.geometry.transposed:
            _cut(edit, node, node.op)
    return edit.graph()


def _cut(edit: GraphEditor, node: Node, op: Convolution) -> None:
    x, w, *more = node.inputs
    weights, geometry = edit.data(w), op.geometry
    if weights is None:
        return
    taps = weights.shape[2:]
    before, behind = [], []
    used = taps_in_use(geometry.problem(edit.value(x).shape, weights.shape))
    for axis, apart in enumerate(geometry.dilation):
        first, last = (used[axis][0], used[axis][-1]) if used[axis] else (0, taps[axis] - 1)
        # Padding ends where the next tap begins; it is never less than none.
        before.append(min(first, geometry.padding[axis] // apart))
        behind.append(min(taps[axis] - 1 - last, geometry.padding_end[axis] // apart))
    if not any((*before, *behind)):
        return
    left = [size - sum(cut) for size, *cut in zip(taps, before, behind, strict=True)]
    kept = tuple(slice(at, at + size) for at, size in zip(before, left, strict=True))
    part = weights[(slice(None), slice(None), *kept)]

    def less(padding: tuple[int, ...], cut: list[int]) -> tuple[int, ...]:
        axes = zip(padding, cut, geometry.dilation, strict=True)
        return tuple(pad - count * apart for pad, count, apart in axes)

    smaller = replace(
        geometry,
        padding=less(geometry.padding, before),
        padding_end=less(geometry.padding_end, behind),
        dilation=tuple(
            d if size > 1 else 1 for d, size in zip(geometry.dilation, left, strict=True)
        ),
    )
    inputs = (x, edit.constant(np.ascontiguousarray(part), like=w), *more)
    edit.replace([node], Node(replace(op, geometry=smaller), inputs, node.outputs, node.name))
