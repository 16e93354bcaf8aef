"""Resize and Upsample."""

from __future__ import annotations

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import Coordinates, Interpolation, Resize, Rounding
from convfind_networks.tensor_type import Array


def resize(node: OnnxNode) -> Value:
    """Resize: by scales or to sizes, of all axes or of some."""
    x = node.input(0)
    if node.opset < 11:
        return _resized(node, x, node.array(1, "scales"), Coordinates.ASYMMETRIC)
    rank = x.type.rank
    axes = [axis_of(axis, rank) for axis in node.integers("axes", range(rank))]
    scales, sizes = np.ones(rank), list(x.shape)
    wanted = node.optional(3)
    if wanted is not None and wanted.type.elements:
        given = [int(size) for size in node.array(3, "sizes").reshape(-1)]
        quotients = [size / x.shape[axis] for axis, size in zip(axes, given, strict=True)]
        policy = node.word("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            common = min(quotients) if policy == "not_larger" else max(quotients)
            quotients = [common] * len(axes)
            given = [int(common * x.shape[axis] + 0.5) for axis in axes]
        for axis, size, quotient in zip(axes, given, quotients, strict=True):
            sizes[axis], scales[axis] = size, quotient
    else:
        for axis, scale in zip(axes, node.array(2, "scales").reshape(-1), strict=True):
            scales[axis] = float(scale)
            sizes[axis] = int(np.floor(scales[axis] * x.shape[axis] + 1e-9))
    coordinates = Coordinates(node.word("coordinate_transformation_mode", "half_pixel"))
    region: tuple[tuple[float, float], ...] = ()
    if coordinates is Coordinates.CROP:
        roi = node.array(1, "roi").reshape(2, -1)
        bounds = {axis: (float(roi[0, at]), float(roi[1, at])) for at, axis in enumerate(axes)}
        region = tuple(bounds.get(axis, (0.0, 1.0)) for axis in range(rank))
    op = Resize(
        tuple(sizes),
        tuple(float(scale) for scale in scales),
        _interpolation(node),
        coordinates,
        Rounding(node.word("nearest_mode", "round_prefer_floor")),
        node.real("cubic_coeff_a", -0.75),
        bool(node.integer("exclude_outside", 0)),
        bool(node.integer("antialias", 0)),
        region,
        node.real("extrapolation_value", 0.0),
    )
    return node.add(op, x)


def upsample(node: OnnxNode) -> Value:
    """Upsample, as Resize was called before opset 10."""
    scales = node.attribute("scales")
    data = node.array(1, "scales") if scales is None else np.asarray(scales)
    return _resized(node, node.input(0), data, Coordinates.ASYMMETRIC)


def _resized(node: OnnxNode, x: Value, scales: Array, coordinates: Coordinates) -> Value:
    factors = tuple(float(scale) for scale in scales.reshape(-1))
    if len(factors) != x.type.rank:
        raise NotSupported(f"{len(factors)} scales of {x.type}")
    sizes = tuple(int(size * scale) for size, scale in zip(x.shape, factors, strict=True))
    op = Resize(sizes, factors, _interpolation(node), coordinates, Rounding.FLOOR)
    return node.add(op, x)


def _interpolation(node: OnnxNode) -> Interpolation:
    word = node.word("mode", "nearest")
    return Interpolation.LINEAR if word == "bilinear" else Interpolation(word)


OPERATORS: OnnxOperators = {"Resize": resize, "Upsample": upsample}
