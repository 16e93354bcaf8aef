"""RoiAlign: regions of images, sampled in a grid."""

from __future__ import annotations

import itertools

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BinaryFunction,
    Gather,
    ReduceFunction,
    Slice,
)
from convfind_networks.sampling import Border, Sampling, taps_of

#: At the border the element there counts; beyond an element's width nothing does.
_BORDER = Sampling(border=Border.BORDER)


def roi_align(node: OnnxNode) -> Value:
    """RoiAlign: the mean, or the largest, of bilinear samples in each cell of a region."""
    x, regions, images = node.values()
    samples = node.integer("sampling_ratio", 0)
    if samples < 1:
        raise NotSupported("sampling_ratio 0: the number of samples depends on data")
    out = node.integer("output_height", 1), node.integer("output_width", 1)
    largest = node.word("mode", "avg") == "max"
    n, channels, *sizes = x.shape
    count, width = regions.shape[0], sizes[1]
    axes, inside = [], []
    for axis, (size, cells) in enumerate(zip(sizes, out, strict=True)):
        at = _positions(node, regions, axis, cells, samples)
        ends = Activation(ActivationKind.CLIP, (-1.0, float(size)))
        within = node.binary(BinaryFunction.EQUAL, at, node.add(Activate(ends), at))
        axes.append(taps_of(node, at, size, _BORDER))
        inside.append(node.cast(within, x.dtype))
    # Rows of channels, for which an index is looked up once.
    order = (0, *range(2, x.type.rank), 1)
    rows = node.reshape(node.transpose(x, *order), n * sizes[0] * width, channels)
    image = node.times(node.reshape(node.cast(images, np.int64), count, 1, 1), sizes[0] * width)
    parts = []
    for (y_place, y_weight), (x_place, x_weight) in itertools.product(*axes):
        across = _across(node, x_place)
        place = node.plus(image, node.plus(_down(node, node.times(y_place, width)), across))
        weight = node.times(
            _down(node, node.times(y_weight, inside[0])),
            _across(node, node.times(x_weight, inside[1])),
        )
        found = node.add(Gather(0), rows, place)
        parts.append(node.times(found, node.reshape(weight, *weight.shape, 1)))
    cells_of = (count, out[0], samples, out[1], samples, channels)
    first, *rest = (node.reshape(part, *cells_of) for part in parts)
    for one in rest:
        first = node.binary(BinaryFunction.MAX if largest else BinaryFunction.ADD, first, one)
    function = ReduceFunction.MAX if largest else ReduceFunction.MEAN
    pooled = node.reduce(function, first, 2, 4, keepdims=False)
    return node.transpose(pooled, 0, 3, 1, 2)


def _positions(node: OnnxNode, regions: Value, axis: int, cells: int, samples: int) -> Value:
    """Return where the samples of each region lie along an axis: (regions, cells * samples)."""
    half = node.word("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    if node.opset < 16:
        half = False
    scale, column = node.real("spatial_scale", 1.0), 1 - axis
    begin, end = (
        node.times(node.add(Slice.of(regions.shape, {1: slice(at, at + 1)}), regions), scale)
        for at in (column, column + 2)
    )
    if half:
        begin, end = node.minus(begin, 0.5), node.minus(end, 0.5)
    length = node.minus(end, begin)
    if not half:
        length = node.binary(BinaryFunction.MAX, length, 1.0)
    steps = (np.arange(cells * samples) + 0.5) / (cells * samples)
    return node.plus(begin, node.times(length, node.const(steps.reshape(1, -1), like=regions)))


def _down(node: OnnxNode, x: Value) -> Value:
    return node.reshape(x, *x.shape, 1)


def _across(node: OnnxNode, x: Value) -> Value:
    return node.reshape(x, x.shape[0], 1, x.shape[1])


OPERATORS: OnnxOperators = {"RoiAlign": roi_align}
