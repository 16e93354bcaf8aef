"""Signals: DFT by a product with a matrix, STFT by a convolution, MelWeightMatrix."""

from __future__ import annotations

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import Convolution, Geometry, MatMul, Slice
from convfind_networks.tensor_type import Array

#: The longest transform: its matrix has the square of that many elements.
LONGEST = 2**12


def dft(node: OnnxNode) -> Value:
    """DFT of real or complex numbers along an axis, and its inverse."""
    x = node.input(0)
    rank = x.type.rank
    usual = node.integer("axis", 1) if node.opset < 20 else int(node.number(2, "axis", -2))
    axis = axis_of(usual, rank)
    inverse, onesided = bool(node.integer("inverse", 0)), bool(node.integer("onesided", 0))
    given = x.shape[axis]
    points = 2 * (given - 1) if inverse and onesided else given
    points = int(node.number(1, "dft_length", points))
    read = min(given, points // 2 + 1 if inverse and onesided else points)
    if axis == rank - 1 or not 0 < points <= LONGEST or x.shape[-1] not in (1, 2):
        raise NotSupported(f"{points} points along axis {axis} of {x.type}")
    if inverse and onesided:
        matrix = _real_inverse(points, read)
    else:
        written = points // 2 + 1 if onesided else points
        matrix = _transform(read, written, points, inverse=inverse)
    matrix = matrix[:, : x.shape[-1]]
    order = (*(a for a in range(rank - 1) if a != axis), axis, rank - 1)
    turned = node.transpose(x, *order)
    part = node.add(Slice.of(turned.shape, {rank - 2: slice(read)}), turned)
    outer, (_, width, count, parts) = turned.shape[:-2], matrix.shape
    flat = node.reshape(part, *outer, read * width)
    rows = node.const(matrix.reshape(read * width, count * parts), like=x)
    product = node.reshape(node.add(MatMul(), flat, rows), *outer, count, parts)
    return node.transpose(product, *np.argsort(order).tolist())


def _transform(read: int, written: int, points: int, *, inverse: bool = False) -> Array:
    """Return what makes complex numbers of complex numbers: (read, 2, written, 2)."""
    turns = np.outer(np.arange(read), np.arange(written)) % points
    angles = (2 if inverse else -2) * np.pi / points * turns
    cos, sin = np.cos(angles), np.sin(angles)
    matrix = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], 1)
    return matrix / points if inverse else matrix


def _real_inverse(points: int, read: int) -> Array:
    """Return what makes real numbers of the first half of a spectrum: (read, 2, points, 1)."""
    matrix = _transform(read, points, points, inverse=True)[..., :1]
    twice = np.full(read, 2.0)  # the other half has the same real parts
    twice[0] = 1
    if points % 2 == 0 and read == points // 2 + 1:
        twice[-1] = 1
    return np.asarray(matrix * twice.reshape(-1, 1, 1, 1))


def stft(node: OnnxNode) -> Value:
    """STFT: a convolution, whose filters are the rows of a DFT times the window."""
    x, step = node.input(0), int(node.array(1, "frame_step").item())
    x = node.reshape(x, *x.shape[:2], x.shape[2] if x.type.rank > 2 else 1)
    window = node.optional(2)
    length = int(node.number(3, "frame_length", 0 if window is None else window.type.elements))
    if not 0 < length <= min(LONGEST, x.shape[1]):
        raise NotSupported(f"frames of {length} elements")
    bins = length // 2 + 1 if node.integer("onesided", 1) else length
    width = x.shape[2]
    matrix = _transform(length, bins, length)[:, :width].transpose(2, 3, 1, 0)
    filters = node.const(matrix.reshape(2 * bins, width, length), like=x)
    if window is not None:
        filters = node.times(filters, node.cast(window, x.dtype))
    geometry = Geometry((step,), (0,), (0,), (1,))
    found = node.add(Convolution(geometry), node.transpose(x, 0, 2, 1), filters)
    split = node.reshape(found, x.shape[0], bins, 2, found.shape[2])
    return node.transpose(split, 0, 3, 1, 2)


def mel_weights(node: OnnxNode) -> Value:
    """MelWeightMatrix: triangles over frequencies, equally far apart in mel."""
    bands, length, rate = (int(node.array(at, "a number").item()) for at in range(3))
    low, high = (float(node.array(at, "a frequency").item()) for at in (3, 4))
    first, last = (2595 * np.log10(1 + hertz / 700) for hertz in (low, high))
    mels = first + np.arange(bands + 2) * (last - first) / (bands + 2)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    corners = ((length + 1) * hertz // rate).astype(np.int64)
    begin, top, end = corners[:-2], corners[1:-1], corners[2:]
    bins = np.arange(length // 2 + 1).reshape(-1, 1)
    rising = (bins - begin) / np.maximum(top - begin, 1)
    falling = (end - bins) / np.maximum(end - top, 1)
    slopes = np.where(bins < top, rising, np.where(bins == top, 1.0, falling))
    weights = np.where((bins >= begin) & (bins <= np.maximum(end, top)), slopes, 0.0)
    return node.const(weights.astype(node.dtype("output_datatype", np.dtype(np.float32))))


OPERATORS: OnnxOperators = {"DFT": dft, "STFT": stft, "MelWeightMatrix": mel_weights}
