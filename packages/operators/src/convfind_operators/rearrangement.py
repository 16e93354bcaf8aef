"""Operators that move the elements of one tensor: `CopyProblem`, `TransposeProblem`, their kin."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.elementwise import broadcast
from convfind_operators.operand import Array, Shape, packed_strides
from convfind_operators.operator import Operator, shape_of
from convfind_operators.walk import View, Walk

Tensors = tuple[tuple[str, Shape, ElementType], ...]


@dataclass(frozen=True, kw_only=True)
class Rearrangement(Operator):
    """Elements that are moved as they are."""

    @property
    @abstractmethod
    def moves(self) -> tuple[Walk, ...]:
        """Walks that copy from one view to another, or fill the only view with `filling`."""

    @property
    def filling(self) -> float:
        """The number that fills what no element is moved to."""
        return 0.0

    @property
    def flops(self) -> float:
        """None."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class OfOneTensor(Rearrangement):
    """Elements of one tensor."""

    x: Shape

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        super().__post_init__()

    def _numbers(self, *names: str) -> None:
        """Bring fields with a number for each axis into their spelling."""
        for name in names:
            numbers = tuple(map(int, getattr(self, name)))
            if len(numbers) != len(self.x):
                raise ProblemError(name, numbers, f"a number for each axis of {self.x}")
            self._set(name, numbers)

    @property
    @abstractmethod
    def shape_of_result(self) -> Shape:
        """The shape of y."""

    def _tensors(self) -> Tensors:
        return ("x", self.x, self.dtype), ("y", self.shape_of_result, self.dtype)

    def _picked(self, start: int, steps: Sequence[int]) -> tuple[Walk, ...]:
        """Return the only move, from an element of x on, with so many steps along y's axes."""
        source = View("x", self.dtype, start, tuple(steps))
        return (Walk(self.result.shape, (source, View.of(self.result))),)


@dataclass(frozen=True, kw_only=True)
class CopyProblem(OfOneTensor):
    """``y = x`` in another layout or with other strides.

    Attributes:
        y_channels_last: as ``channels_last``, for y; None: as x.
    """

    kind: ClassVar[str] = "copy"

    y_channels_last: bool | None = None

    def __post_init__(self) -> None:
        if self.y_channels_last is not None and "y" not in dict(self.strides):
            strides = packed_strides(self.x, channels_last=self.y_channels_last)
            if strides != packed_strides(self.x, channels_last=self.channels_last):
                self._set("strides", {**dict(self.strides), "y": strides})
        self._set("y_channels_last", None)
        super().__post_init__()

    @property
    def shape_of_result(self) -> Shape:
        """The shape of x."""
        return self.x

    @property
    def moves(self) -> tuple[Walk, ...]:
        """All of x."""
        return self._picked(0, self.operand("x").strides)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return x."""
        return {"y": inputs["x"]}


@dataclass(frozen=True, kw_only=True)
class TransposeProblem(OfOneTensor):
    """The axes of x in another order.

    Attributes:
        order: axis i of y is axis ``order[i]`` of x.
    """

    kind: ClassVar[str] = "transpose"

    order: tuple[int, ...]

    def __post_init__(self) -> None:
        self._set("order", tuple(map(int, self.order)))
        if sorted(self.order) != list(range(len(self.x))):
            raise ProblemError("order", self.order, f"an order of the axes of {tuple(self.x)}")
        super().__post_init__()

    @property
    def shape_of_result(self) -> Shape:
        """The sizes of x in that order."""
        return tuple(self.x[axis] for axis in self.order)

    @property
    def moves(self) -> tuple[Walk, ...]:
        """All of x."""
        strides = self.operand("x").strides
        return self._picked(0, [strides[axis] for axis in self.order])

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Permute the axes."""
        return {"y": inputs["x"].transpose(self.order)}


@dataclass(frozen=True, kw_only=True)
class ChannelShuffleProblem(OfOneTensor):
    """The channels of x, axis 1, dealt out anew.

    Attributes:
        groups: into which channels are divided; first come the first of each group, then the
            second of each.
    """

    kind: ClassVar[str] = "channel-shuffle"

    groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.x) < 2 or self.groups < 1 or self.x[1] % self.groups:
            raise ProblemError("groups", self.groups, f"a divisor of the channels of {self.x}")

    @property
    def shape_of_result(self) -> Shape:
        """The shape of x."""
        return self.x

    @property
    def moves(self) -> tuple[Walk, ...]:
        """Channels as groups and channels of a group, which change places."""
        batch, channels, *spatial = self.x
        groups = self.groups
        sizes = (batch, channels // groups, groups, *spatial)
        (n, c, *rest), (to_n, to_c, *to_rest) = self.operand("x").strides, self.result.strides
        source = View("x", self.dtype, 0, (n, c, c * (channels // groups), *rest))
        result = View("y", self.dtype, 0, (to_n, to_c * groups, to_c, *to_rest))
        return (Walk(sizes, (source, result)),)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Transpose groups and channels of a group."""
        x = inputs["x"]
        split = x.reshape(x.shape[0], self.groups, -1, *x.shape[2:])
        return {"y": split.swapaxes(1, 2).reshape(x.shape)}


@dataclass(frozen=True, kw_only=True)
class ExpandProblem(OfOneTensor):
    """x repeated along axes of size 1, and along new ones before.

    Attributes:
        shape: of y, to which that of x broadcasts.
    """

    kind: ClassVar[str] = "expand"

    shape: Shape

    def __post_init__(self) -> None:
        self._set("shape", shape_of("shape", self.shape))
        super().__post_init__()
        if broadcast(self.x, self.shape) != self.shape:
            raise ProblemError("shape", self.shape, f"a shape to which {self.x} expands")

    @property
    def shape_of_result(self) -> Shape:
        """The new shape."""
        return self.shape

    @property
    def moves(self) -> tuple[Walk, ...]:
        """x over and over."""
        return self._picked(0, View.broadcast(self.operand("x"), self.shape).steps)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Repeat."""
        return {"y": np.broadcast_to(inputs["x"], self.shape)}


@dataclass(frozen=True, kw_only=True)
class TileProblem(OfOneTensor):
    """x repeated along each axis.

    Attributes:
        repeats: how often along each axis.
    """

    kind: ClassVar[str] = "tile"

    repeats: tuple[int, ...]

    def __post_init__(self) -> None:
        self._numbers("repeats")
        super().__post_init__()

    @property
    def shape_of_result(self) -> Shape:
        """The sizes multiplied."""
        return tuple(size * by for size, by in zip(self.x, self.repeats, strict=True))

    @property
    def moves(self) -> tuple[Walk, ...]:
        """Each axis as two: repetitions, and the elements of x."""
        sizes: list[int] = []
        source: list[int] = []
        result: list[int] = []
        for size, by, step, to in zip(
            self.x, self.repeats, self.operand("x").strides, self.result.strides, strict=True
        ):
            sizes += [by, size]
            source += [0, step]
            result += [to * size, to]
        views = View("x", self.dtype, 0, tuple(source)), View("y", self.dtype, 0, tuple(result))
        return (Walk(tuple(sizes), views),)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Repeat."""
        return {"y": np.tile(inputs["x"], self.repeats)}


@dataclass(frozen=True, kw_only=True)
class SliceProblem(OfOneTensor):
    """A part of x.

    Attributes:
        begin: first element along each axis, from 0 on.
        count: elements along each axis.
        step: distance from one to the next, below zero backwards.
    """

    kind: ClassVar[str] = "slice"

    begin: tuple[int, ...]
    count: tuple[int, ...]
    step: tuple[int, ...]

    def __post_init__(self) -> None:
        self._numbers("begin", "count", "step")
        for size, begin, count, step in zip(self.x, self.begin, self.count, self.step, strict=True):
            ends = (begin, begin + (count - 1) * step)
            if count < 0 or (count and not all(0 <= at < size for at in ends)):
                raise ProblemError("begin", self.begin, f"a part of {tuple(self.x)}")
        super().__post_init__()

    @property
    def shape_of_result(self) -> Shape:
        """The counts."""
        return self.count

    @property
    def moves(self) -> tuple[Walk, ...]:
        """The part."""
        strides = self.operand("x").strides
        start = sum(at * step for at, step in zip(self.begin, strides, strict=True))
        return self._picked(start, [a * b for a, b in zip(self.step, strides, strict=True)])

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Cut."""
        picked = (
            begin + step * np.arange(count)
            for begin, count, step in zip(self.begin, self.count, self.step, strict=True)
        )
        return {"y": inputs["x"][np.ix_(*picked)] if self.x else inputs["x"]}
