"""Images at positions between their elements, as a composition of other operations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from convfind_networks.graph import Value
from convfind_networks.importing import Composer, NotSupported
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BinaryFunction,
    Expand,
    GatherElements,
    Interpolation,
    Slice,
    UnaryFunction,
    Where,
)

#: The coefficient of cubic interpolation.
_CUBIC = -0.75


class Border(StrEnum):
    """The values outside of an image."""

    ZEROS = "zeros"
    BORDER = "border"  # the nearest element
    REFLECTION = "reflection"


@dataclass(frozen=True)
class Sampling:
    """How an image is continued between and outside of its elements.

    Attributes:
        margin: how far outside of the outermost elements a reflection has its axis.
    """

    interpolation: Interpolation = Interpolation.LINEAR
    border: Border = Border.ZEROS
    margin: float = 0.5

    @property
    def taps(self) -> range:
        """Elements along an axis that count, from the one below a position on."""
        return {
            Interpolation.NEAREST: range(1),
            Interpolation.LINEAR: range(2),
            Interpolation.CUBIC: range(-1, 3),
        }[self.interpolation]


def sampled(add: Composer, x: Value, at: Sequence[Value], how: Sampling) -> Value:
    """Return the elements of x at positions.

    Args:
        add: adds the operations.
        x: (N, C, spatial).
        at: for each spatial axis the positions (N, P), in elements from the first one on.
        how: how x is continued.

    Returns:
        (N, C, P).
    """
    batch, channels, *sizes = x.shape
    flat = add.reshape(x, batch, channels, math.prod(sizes))
    axes = [taps_of(add, one, size, how) for one, size in zip(at, sizes, strict=True)]
    result: Value | None = None
    for taps in itertools.product(*axes):
        place, weight = taps[0]
        for size, (next_place, next_weight) in zip(sizes[1:], taps[1:], strict=True):
            place = add.plus(add.times(place, size), next_place)
            weight = add.times(weight, next_weight)
        count = place.shape[1]
        spread = add.add(Expand((batch, channels, count)), add.reshape(place, batch, 1, count))
        found = add.add(GatherElements(2), flat, spread)
        part = add.times(found, add.reshape(weight, batch, 1, count))
        result = part if result is None else add.plus(result, part)
    assert result is not None
    return result


def sampled_in_grid(add: Composer, x: Value, grid: Value, how: Sampling, *, corners: bool) -> Value:
    """Return the elements of x at the positions of a grid, which has x's last axis first.

    Args:
        add: adds the operations.
        x: (N, C, spatial).
        grid: (N, spatial of the result, axes); positions are between -1 and 1.
        how: how x is continued; its margin follows from ``corners``.
        corners: -1 and 1 are the centres of the outermost elements, not their edges.
    """
    sizes, out = x.shape[2:], grid.shape[1:-1]
    if grid.type.rank != x.type.rank or grid.shape[-1] != len(sizes):
        raise NotSupported(f"positions {grid.type} in {x.type}")
    flat = grid.shape[0], math.prod(out), len(sizes)
    places = add.reshape(add.cast(grid, x.dtype), *flat)
    at = []
    for axis, size in enumerate(sizes):
        last = len(sizes) - 1 - axis
        one = add.add(Slice.of(flat, {2: slice(last, last + 1)}), places)
        width = size - 1 if corners else size
        moved = add.times(add.plus(add.reshape(one, *flat[:2]), 1.0), width / 2)
        at.append(moved if corners else add.minus(moved, 0.5))
    found = sampled(add, x, at, replace(how, margin=0.0 if corners else 0.5))
    return add.reshape(found, *x.shape[:2], *out)


def taps_of(add: Composer, at: Value, size: int, how: Sampling) -> list[tuple[Value, Value]]:
    """Return the elements along an axis that count at positions, as int64, and how much each does.

    Both have the positions' shape.
    """
    if how.interpolation is not Interpolation.CUBIC:
        at = _continued(add, at, size, how)
    if how.interpolation is Interpolation.NEAREST:
        at = add.unary(UnaryFunction.ROUND, at)
    low = add.unary(UnaryFunction.FLOOR, at)
    found = []
    for tap in how.taps:
        place = add.plus(low, float(tap)) if tap else low
        weight = _weight(add, add.magnitude(add.minus(at, place)), how.interpolation)
        if how.border is Border.ZEROS:
            weight = add.times(weight, _is_inside(add, place, size))
        elif how.interpolation is Interpolation.CUBIC:
            place = _continued(add, place, size, how)
        found.append((add.cast(_clipped(add, place, size), np.int64), weight))
    return found


def _continued(add: Composer, at: Value, size: int, how: Sampling) -> Value:
    """Return positions inside of an image that stand for those outside."""
    if how.border is Border.BORDER:
        return _clipped(add, at, size)
    if how.border is Border.ZEROS:
        return at
    width = size - 1 + 2 * how.margin
    if not width:
        return add.times(at, 0.0)
    turned = add.binary(BinaryFunction.MOD, add.plus(at, how.margin), 2 * width)
    distance = add.magnitude(add.minus(turned, width))
    return add.minus(add.const(width - how.margin, like=at), distance)


def _clipped(add: Composer, at: Value, size: int) -> Value:
    return add.add(Activate(Activation(ActivationKind.CLIP, (0.0, size - 1.0))), at)


def _is_inside(add: Composer, place: Value, size: int) -> Value:
    """Return 1 for elements that there are, 0 for others."""
    same = add.binary(BinaryFunction.EQUAL, place, _clipped(add, place, size))
    return add.cast(same, place.dtype)


def _weight(add: Composer, distance: Value, interpolation: Interpolation) -> Value:
    if interpolation is not Interpolation.CUBIC:
        return add.plus(add.unary(UnaryFunction.NEG, distance), 1.0)
    a = _CUBIC
    near = _polynomial(add, distance, a + 2, -(a + 3), 0.0, 1.0)
    far = _polynomial(add, distance, a, -5 * a, 8 * a, -4 * a)
    is_near = add.binary(BinaryFunction.LESS_EQUAL, distance, 1.0)
    return add.add(Where(), is_near, near, far)


def _polynomial(add: Composer, t: Value, *coefficients: float) -> Value:
    first, *rest = coefficients
    result = add.times(t, first)
    for at, coefficient in enumerate(rest):
        if coefficient:
            result = add.plus(result, coefficient)
        if at + 1 < len(rest):
            result = add.times(result, t)
    return result
