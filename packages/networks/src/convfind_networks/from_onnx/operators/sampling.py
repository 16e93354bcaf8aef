"""GridSample, Col2Im, ReverseSequence: elements from, or to, places that follow a rule."""

from __future__ import annotations

import itertools
import math

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    BinaryFunction,
    Combine,
    Expand,
    GatherElements,
    Interpolation,
    ScatterElements,
    Slice,
    Where,
)
from convfind_networks.sampling import Border, Sampling, sampled

_INTERPOLATIONS = {
    "nearest": Interpolation.NEAREST,
    "linear": Interpolation.LINEAR,
    "bilinear": Interpolation.LINEAR,
    "cubic": Interpolation.CUBIC,
    "bicubic": Interpolation.CUBIC,
}


def grid_sample(node: OnnxNode) -> Value:
    """GridSample; positions are between -1 and 1, the last axis first."""
    x, grid = node.input(0), node.input(1)
    sizes, out = x.shape[2:], grid.shape[1:-1]
    if grid.type.rank != x.type.rank or grid.shape[-1] != len(sizes):
        raise NotSupported(f"positions {grid.type} in {x.type}")
    corners = bool(node.integer("align_corners", 0))
    flat = grid.shape[0], math.prod(out), len(sizes)
    places = node.reshape(node.cast(grid, x.dtype), *flat)
    at = []
    for axis, size in enumerate(sizes):
        last = len(sizes) - 1 - axis
        one = node.add(Slice.of(flat, {2: slice(last, last + 1)}), places)
        width = size - 1 if corners else size
        moved = node.times(node.plus(node.reshape(one, *flat[:2]), 1.0), width / 2)
        at.append(moved if corners else node.minus(moved, 0.5))
    how = Sampling(
        _INTERPOLATIONS[node.word("mode", "linear")],
        Border(node.word("padding_mode", "zeros")),
        0.0 if corners else 0.5,
    )
    return node.reshape(sampled(node, x, at, how), *x.shape[:2], *out)


def columns_to_image(node: OnnxNode) -> Value:
    """Col2Im: blocks that overlap are added up."""
    x = node.input(0)
    image = tuple(int(size) for size in node.array(1, "image_shape").reshape(-1))
    block = tuple(int(size) for size in node.array(2, "block_shape").reshape(-1))
    rank = len(image)
    stride, dilation = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    pads = node.integers("pads", (0,) * 2 * rank)
    padded = [n + b + e for n, b, e in zip(image, pads[:rank], pads[rank:], strict=True)]
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(padded, block, stride, dilation, strict=True)
    ]
    places = np.zeros((*block, *counts), np.int64)
    for taps in itertools.product(*map(range, block)):
        axes = [
            np.arange(count) * s + tap * d
            for count, s, tap, d in zip(counts, stride, taps, dilation, strict=True)
        ]
        places[taps] = np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), padded)
    channels = x.shape[1] // math.prod(block)
    flat = (x.shape[0], channels, places.size)
    zeros = node.const(np.zeros((*flat[:2], math.prod(padded))), like=x)
    spread = node.const(np.broadcast_to(places.reshape(-1), flat).copy())
    sums = node.add(ScatterElements(2, Combine.ADD), zeros, spread, node.reshape(x, *flat))
    whole = node.reshape(sums, *flat[:2], *padded)
    cut = {2 + axis: slice(pads[axis], pads[axis] + size) for axis, size in enumerate(image)}
    return node.add(Slice.of(whole.shape, cut), whole)


def reverse_sequence(node: OnnxNode) -> Value:
    """ReverseSequence: the beginning of each line in reverse, as long as that line is."""
    x, lengths = node.input(0), node.input(1)
    time, batch = node.integer("time_axis", 0), node.integer("batch_axis", 1)
    steps = np.arange(x.shape[time])
    shape = [1] * x.type.rank
    shape[time] = x.shape[time]
    forward = node.const(steps.reshape(shape))
    shape[time], shape[batch] = 1, x.shape[batch]
    count = node.reshape(node.cast(lengths, np.int64), *shape)
    backward = node.minus(node.minus(count, 1), forward)
    inside = node.binary(BinaryFunction.GREATER_EQUAL, backward, 0)
    places = node.add(Where(), inside, backward, forward)
    return node.add(GatherElements(time), x, node.add(Expand(x.shape), places))


OPERATORS: OnnxOperators = {
    "GridSample": grid_sample,
    "Col2Im": columns_to_image,
    "ReverseSequence": reverse_sequence,
}
