"""`DeformableConvolution`: taps that lie where computed offsets put them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.geometry import Geometry
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True)
class DeformableConvolution(Op):
    """A 2-D convolution whose taps are moved by offsets, with bilinear interpolation.

    Reads x, w, the offsets (N, offset groups * taps * 2, output size), and a mask (N, offset
    groups * taps, output size) that taps are multiplied by, or nothing. Outside of x are zeros.
    """

    geometry: Geometry
    offset_groups: int = 1

    def infer(
        self, x: TensorType, w: TensorType, offsets: TensorType, *mask: TensorType
    ) -> TensorType:
        """Return the type of the result."""
        if x.rank != 4 or self.geometry.transposed:
            raise GraphError(f"deformable convolutions are in 2 dimensions, not of {x}")
        shape = self.geometry.problem(x.shape, w.shape).y_shape
        groups, taps = self.offset_groups, math.prod(w.shape[2:])
        if groups < 1 or x.shape[1] % groups:
            raise GraphError(f"{groups} offset groups do not divide the channels of {x}")
        for given, each in ((offsets, 2), *((one, 1) for one in mask)):
            if given.shape != (x.shape[0], groups * taps * each, *shape[2:]):
                raise GraphError(f"offsets or mask {given} do not go with a result of {shape}")
        return x.with_shape(shape)

    def evaluate(self, x: Array, w: Array, offsets: Array, mask: Array | None = None) -> Array:
        """Gather the moved taps into columns, and multiply."""
        n, channels = x.shape[:2]
        out = offsets.shape[2:]
        taps = math.prod(w.shape[2:])
        moved = offsets.reshape(n, self.offset_groups, taps, 2, *out)
        each = channels // self.offset_groups
        columns = np.empty((n, channels, taps, *out))
        for image, group, tap in np.ndindex(n, self.offset_groups, taps):
            part = slice(group * each, (group + 1) * each)
            at = self.positions(tap, w.shape[2:], out) + moved[image, group, tap]
            columns[image, part, tap] = _bilinear(x[image, part], at)
        if mask is not None:
            columns *= np.repeat(mask.reshape(n, self.offset_groups, taps, *out), each, axis=1)
        groups = self.geometry.groups
        rows = w.reshape(groups, w.shape[0] // groups, -1)
        sums = rows @ columns.reshape(n, groups, rows.shape[2], -1)
        return sums.reshape(n, w.shape[0], *out)

    def positions(self, tap: int, size: tuple[int, ...], out: tuple[int, ...]) -> Array:
        """Return where a tap lies, for each position of the result, before it is moved."""
        geometry = self.geometry
        taps = np.unravel_index(tap, size)
        axes = [
            np.arange(count) * geometry.stride[axis]
            - geometry.padding[axis]
            + int(taps[axis]) * geometry.dilation[axis]
            for axis, count in enumerate(out)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij")).astype(np.float64)

    def macs(self, x: TensorType, w: TensorType, *_: TensorType) -> int:
        """Multiply-accumulate operations of the product."""
        return self.geometry.problem(x.shape, w.shape).macs


def _bilinear(image: Array, at: Array) -> Array:
    """Return an image (channels, height, width) at positions between its elements."""
    low = np.floor(at)
    result = np.zeros((image.shape[0], *at.shape[1:]))
    for corner in np.ndindex(2, 2):
        place = low + np.reshape(corner, (2, 1, 1))
        weight = np.prod(1 - np.abs(at - place), axis=0)
        inside = np.ones(at.shape[1:], np.bool_)
        for axis, size in enumerate(image.shape[1:]):
            inside &= (place[axis] >= 0) & (place[axis] < size)
        y, x = (np.where(inside, place[axis], 0).astype(int) for axis in (0, 1))
        result += image[:, y, x] * (weight * inside)
    return result
