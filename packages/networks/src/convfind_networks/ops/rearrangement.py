"""Elements in another order or shape: reshape, transpose, concatenate, split, slice, pad, tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.checking.borders import PadMode, padded
from convfind_networks.errors import GraphError
from convfind_networks.ops.matmul import broadcast_shape
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True)
class Reshape(Op):
    """The elements of x under another shape: flatten, squeeze and unsqueeze too. Reads x."""

    is_view: ClassVar[bool] = True

    shape: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """Return the type with the new shape."""
        result = x.with_shape(self.shape)
        if result.elements != x.elements:
            raise GraphError(f"{x} cannot take shape {self.shape}")
        return result

    def evaluate(self, x: Array) -> Array:
        """Give x the shape."""
        return x.reshape(self.shape)


@dataclass(frozen=True)
class Transpose(Op):
    """The dimensions of x in another order. Reads x."""

    order: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """Return the type with the sizes in that order."""
        if sorted(self.order) != list(range(x.rank)):
            raise GraphError(f"{self.order} is no order of the dimensions of {x}")
        return x.with_shape(x.shape[axis] for axis in self.order)

    def evaluate(self, x: Array) -> Array:
        """Permute the dimensions."""
        return x.transpose(self.order)


@dataclass(frozen=True)
class LayoutCopy(Op):
    """The same tensor in the other layout. Reads x. Only where layouts are assigned."""

    channels_last: bool

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of x."""
        return x

    def evaluate(self, x: Array) -> Array:
        """Return x: memory is not what a reference sees."""
        return x


@dataclass(frozen=True)
class ChannelShuffle(Op):
    """The channels of x dealt out anew: the first of each group, then the second of each. Reads x.

    ShuffleNets spell it as a reshape, a transpose and a reshape, which no layout but one survives.
    """

    follows_layout: ClassVar[bool] = True

    groups: int

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of x."""
        if x.rank < 2 or self.groups < 1 or x.shape[1] % self.groups:
            raise GraphError(f"{self.groups} groups do not divide the channels of {x}")
        return x

    def evaluate(self, x: Array) -> Array:
        """Transpose groups and channels of a group."""
        split = x.reshape(x.shape[0], self.groups, -1, *x.shape[2:])
        return split.swapaxes(1, 2).reshape(x.shape)


@dataclass(frozen=True)
class Expand(Op):
    """x repeated along dimensions of size 1, and along new ones before. Reads x."""

    shape: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """Return the type with the new shape."""
        if broadcast_shape(x.shape, self.shape) != self.shape:
            raise GraphError(f"{x} does not expand to {self.shape}")
        return x.with_shape(self.shape)

    def evaluate(self, x: Array) -> Array:
        """Repeat without copying."""
        return np.broadcast_to(x, self.shape)


@dataclass(frozen=True)
class Tile(Op):
    """x repeated along each dimension so many times. Reads x."""

    repeats: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """Return the type with the sizes multiplied."""
        if len(self.repeats) != x.rank:
            raise GraphError(f"{self.repeats} are not one number for each dimension of {x}")
        return x.with_shape(size * by for size, by in zip(x.shape, self.repeats, strict=True))

    def evaluate(self, x: Array) -> Array:
        """Repeat."""
        return np.tile(x, self.repeats)


@dataclass(frozen=True)
class Concat(Op):
    """Tensors behind each other along an axis. Reads one or more."""

    follows_layout: ClassVar[bool] = True

    axis: int

    def infer(self, first: TensorType, *rest: TensorType) -> TensorType:
        """Return the type with the sizes along the axis added."""
        if not 0 <= self.axis < first.rank:
            raise GraphError(f"axis {self.axis} is none of {first}")
        sizes = list(first.shape)
        for one in rest:
            same = [
                a == b or axis == self.axis
                for axis, (a, b) in enumerate(zip(first.shape, one.shape, strict=False))
            ]
            if one.rank != first.rank or one.dtype != first.dtype or not all(same):
                raise GraphError(f"{first} and {one} do not go together along axis {self.axis}")
            sizes[self.axis] += one.shape[self.axis]
        return first.with_shape(sizes)

    def evaluate(self, *inputs: Array) -> Array:
        """Concatenate."""
        return np.concatenate(inputs, axis=self.axis)


@dataclass(frozen=True)
class Split(Op):
    """Pieces of x along an axis, one result each. Reads x."""

    follows_layout: ClassVar[bool] = True

    axis: int
    sizes: tuple[int, ...]

    def infer(self, x: TensorType) -> tuple[TensorType, ...]:
        """Return the types of the pieces."""
        if not 0 <= self.axis < x.rank or sum(self.sizes) != x.shape[self.axis]:
            raise GraphError(f"{x} does not split into {self.sizes} along axis {self.axis}")
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        return tuple(x.with_shape((*before, size, *after)) for size in self.sizes)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        """Cut."""
        return tuple(np.split(x, np.cumsum(self.sizes)[:-1], axis=self.axis))


@dataclass(frozen=True)
class Slice(Op):
    """A part of x. Reads x.

    For each dimension: where it begins, how many elements, and how far apart; steps may be
    negative.
    """

    follows_layout: ClassVar[bool] = True

    begin: tuple[int, ...]
    count: tuple[int, ...]
    step: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], slices: dict[int, slice]) -> Slice:
        """Return the part that Python's slices select, by axis."""
        ranges = [
            range(*slices.get(axis, slice(None)).indices(size)) for axis, size in enumerate(shape)
        ]
        return cls(
            tuple(part.start if len(part) else 0 for part in ranges),
            tuple(len(part) for part in ranges),
            tuple(part.step for part in ranges),
        )

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of the part."""
        if not len(self.begin) == len(self.count) == len(self.step) == x.rank:
            raise GraphError(f"{self} is no part of {x}")
        for size, begin, count, step in zip(
            x.shape, self.begin, self.count, self.step, strict=True
        ):
            if count and not (0 <= begin < size and 0 <= begin + (count - 1) * step < size):
                raise GraphError(f"{self} is no part of {x}")
        return x.with_shape(self.count)

    def evaluate(self, x: Array) -> Array:
        """Cut."""
        picked = (
            begin + step * np.arange(count)
            for begin, count, step in zip(self.begin, self.count, self.step, strict=True)
        )
        return x[np.ix_(*picked)] if x.ndim else x


@dataclass(frozen=True)
class Pad(Op):
    """x with elements around it; negative numbers cut some off. Reads x."""

    follows_layout: ClassVar[bool] = True

    begin: tuple[int, ...]
    end: tuple[int, ...]
    mode: PadMode = PadMode.CONSTANT
    value: float = 0.0

    def infer(self, x: TensorType) -> TensorType:
        """Return the type with the sizes grown."""
        if not len(self.begin) == len(self.end) == x.rank:
            raise GraphError(f"{self} does not have two numbers for each dimension of {x}")
        return x.with_shape(
            size + begin + end
            for size, begin, end in zip(x.shape, self.begin, self.end, strict=True)
        )

    def evaluate(self, x: Array) -> Array:
        """Pad, then cut off."""
        return padded(x, self.begin, self.end, self.mode, self.value)

    @property
    def is_spatial(self) -> bool:
        """True where it adds to spatial dimensions only, and cuts nothing off."""
        return not any(self.begin[:2] + self.end[:2]) and min(self.begin + self.end, default=0) >= 0
