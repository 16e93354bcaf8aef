"""GridSample, Col2Im, ReverseSequence: elements from, or to, places that follow a rule."""

from __future__ import annotations

import numpy as np

from convfind_networks.columns import image_of_columns
from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.ops import (
    BinaryFunction,
    Expand,
    GatherElements,
    Interpolation,
    Where,
    Window,
)
from convfind_networks.sampling import Border, Sampling, sampled_in_grid

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
    how = Sampling(
        _INTERPOLATIONS[node.word("mode", "linear")],
        Border(node.word("padding_mode", "zeros")),
    )
    return sampled_in_grid(node, x, grid, how, corners=bool(node.integer("align_corners", 0)))


def columns_to_image(node: OnnxNode) -> Value:
    """Col2Im: blocks that overlap are added up."""
    x = node.input(0)
    image = tuple(int(size) for size in node.array(1, "image_shape").reshape(-1))
    block = tuple(int(size) for size in node.array(2, "block_shape").reshape(-1))
    rank = len(image)
    stride, dilation = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    pads = node.integers("pads", (0,) * 2 * rank)
    window = Window(block, stride, pads[:rank], pads[rank:], dilation)
    return image_of_columns(node, x, image, window)


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
