"""Elements picked or replaced by computed indices: `Gather` and its kin, `Scatter`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType


def _check(axis: int, x: TensorType, indices: TensorType) -> None:
    if not 0 <= axis < x.rank:
        raise GraphError(f"axis {axis} is none of {x}")
    if indices.dtype.kind not in "iu":
        raise GraphError(f"indices are whole numbers, not {indices}")


def _bounded(indices: Array, size: int) -> Array:
    """Return indices that count from the beginning; those out of range are an error."""
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise GraphError(f"indices {indices.min()} to {indices.max()} of {size} elements")
    return np.where(indices < 0, indices + size, indices)


@dataclass(frozen=True)
class Gather(Op):
    """Slices of x along an axis, chosen by number. Reads x and the indices."""

    axis: int = 0

    def infer(self, x: TensorType, indices: TensorType) -> TensorType:
        """Return the type with the indices' shape in the place of the axis."""
        _check(self.axis, x, indices)
        return x.with_shape((*x.shape[: self.axis], *indices.shape, *x.shape[self.axis + 1 :]))

    def evaluate(self, x: Array, indices: Array) -> Array:
        """Pick the slices."""
        return np.take(x, _bounded(indices, x.shape[self.axis]), axis=self.axis)


@dataclass(frozen=True)
class GatherElements(Op):
    """An element of x for every index, in the index's own line along an axis. Reads x, indices."""

    axis: int

    def infer(self, x: TensorType, indices: TensorType) -> TensorType:
        """Return the type of x with the indices' shape."""
        _check(self.axis, x, indices)
        if indices.rank != x.rank:
            raise GraphError(f"{indices} has not as many dimensions as {x}")
        return x.with_shape(indices.shape)

    def evaluate(self, x: Array, indices: Array) -> Array:
        """Pick the elements."""
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[self.axis] = _bounded(indices, x.shape[self.axis])
        return np.asarray(x[tuple(places)])


@dataclass(frozen=True)
class GatherND(Op):
    """Slices of x, each chosen by a tuple of indices. Reads x and the tuples, along their last
    dimension.
    """

    batch_dims: int = 0

    def infer(self, x: TensorType, indices: TensorType) -> TensorType:
        """Return the type of the slices."""
        _check(0, x, indices)
        b = self.batch_dims
        if not 0 <= b < min(indices.rank, x.rank) or x.shape[:b] != indices.shape[:b]:
            raise GraphError(f"{b} batch dimensions of {x} and {indices}")
        depth = indices.shape[-1]
        if not 1 <= depth <= x.rank - b:
            raise GraphError(f"tuples of {depth} indices into {x}")
        return x.with_shape((*indices.shape[:-1], *x.shape[b + depth :]))

    def evaluate(self, x: Array, indices: Array) -> Array:
        """Pick the slices."""
        b, depth = self.batch_dims, indices.shape[-1]
        batch = np.indices(indices.shape[:b], sparse=True)
        more = (1,) * (indices.ndim - 1 - b)
        places = [np.asarray(one).reshape(*one.shape, *more) for one in batch]
        places += [_bounded(indices[..., d], x.shape[b + d]) for d in range(depth)]
        return np.asarray(x[tuple(places)])


class Combine(StrEnum):
    """The combination of an element with what is written to it."""

    REPLACE = "none"
    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"


_COMBINE = {
    Combine.ADD: np.add,
    Combine.MUL: np.multiply,
    Combine.MAX: np.maximum,
    Combine.MIN: np.minimum,
}


def _scatter(result: Array, places: tuple[Array, ...], updates: Array, how: Combine) -> Array:
    if how is Combine.REPLACE:
        result[places] = updates
    else:
        _COMBINE[how].at(result, places, updates)
    return result


@dataclass(frozen=True)
class ScatterElements(Op):
    """x with an element replaced for every index, in the index's own line along an axis.

    Reads x, the indices, and the updates, which have the indices' shape.
    """

    axis: int
    combine: Combine = Combine.REPLACE

    def infer(self, x: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
        """Return the type of x."""
        _check(self.axis, x, indices)
        if indices.rank != x.rank or updates != x.with_shape(indices.shape):
            raise GraphError(f"indices {indices} and updates {updates} do not go with {x}")
        return x

    def evaluate(self, x: Array, indices: Array, updates: Array) -> Array:
        """Replace the elements."""
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[self.axis] = _bounded(indices, x.shape[self.axis])
        return _scatter(x.copy(), tuple(np.broadcast_arrays(*places)), updates, self.combine)


@dataclass(frozen=True)
class ScatterND(Op):
    """x with slices replaced, each chosen by a tuple of indices. Reads x, the tuples, updates."""

    combine: Combine = Combine.REPLACE

    def infer(self, x: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
        """Return the type of x."""
        slices = GatherND().infer(x, indices)
        if updates != slices:
            raise GraphError(f"updates are {slices}, not {updates}")
        return x

    def evaluate(self, x: Array, indices: Array, updates: Array) -> Array:
        """Replace the slices."""
        places = [_bounded(indices[..., d], x.shape[d]) for d in range(indices.shape[-1])]
        return _scatter(x.copy(), tuple(places), updates, self.combine)
