"""Operators that move elements: `CopyProblem`, `TransposeProblem`, `ConcatProblem`, their kin."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.elementwise import broadcast
from convfind_operators.operand import Array, Operand, Shape, packed_strides
from convfind_operators.operator import Operator, shape_of, word
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
class _OfOne(Rearrangement):
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
class CopyProblem(_OfOne):
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
class TransposeProblem(_OfOne):
    """The axes of x in another order: axis i of y is axis ``order[i]`` of x."""

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
class ChannelShuffleProblem(_OfOne):
    """The channels of x dealt out anew: the first of each group, then the second of each."""

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
class ExpandProblem(_OfOne):
    """x repeated along axes of size 1, and along new ones before."""

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
class TileProblem(_OfOne):
    """x repeated along each axis so many times."""

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
class SliceProblem(_OfOne):
    """A part of x: for each axis where it begins, how many elements, how far apart, either way."""

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


class PadMode(StrEnum):
    """What lies around a tensor."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"
    WRAP = "wrap"


@dataclass(frozen=True, kw_only=True)
class PadProblem(_OfOne):
    """x with elements around it; negative numbers cut some off."""

    kind: ClassVar[str] = "pad"

    begin: tuple[int, ...]
    end: tuple[int, ...]
    mode: PadMode = PadMode.CONSTANT
    value: float = 0.0

    def __post_init__(self) -> None:
        self._numbers("begin", "end")
        self._set("mode", word("mode", PadMode, self.mode))
        super().__post_init__()

    @property
    def shape_of_result(self) -> Shape:
        """The sizes grown."""
        return shape_of(
            "x", [n + b + e for n, b, e in zip(self.x, self.begin, self.end, strict=True)]
        )

    @property
    def filling(self) -> float:
        """What lies around x."""
        return self.value

    @property
    def moves(self) -> tuple[Walk, ...]:
        """A move for each combination of runs of the axes."""
        x, y = self.operand("x"), self.result
        walks = []
        for runs in itertools.product(*(self._runs(axis) for axis in range(len(self.x)))):
            start = sum(run.at * step for run, step in zip(runs, y.strides, strict=True))
            views = [View("y", self.dtype, start, y.strides)]
            if all(run.step is not None for run in runs):
                begin = sum(run.begin * step for run, step in zip(runs, x.strides, strict=True))
                steps = tuple(
                    (run.step or 0) * step for run, step in zip(runs, x.strides, strict=True)
                )
                views.insert(0, View("x", self.dtype, begin, steps))
            walks.append(Walk(tuple(run.count for run in runs), tuple(views)))
        return tuple(walks)

    def _sources(self, axis: int) -> list[int]:
        """Return which element of x each element of y along an axis is; -1: none."""
        begin, end = self.begin[axis], self.end[axis]
        options: dict[str, Any] = {}
        if self.mode is PadMode.CONSTANT:
            options["constant_values"] = -1
        padded = np.pad(
            np.arange(self.x[axis]), (max(begin, 0), max(end, 0)), mode=self.mode.value, **options
        )
        return [int(at) for at in padded[max(-begin, 0) : padded.size - max(-end, 0)]]

    def _runs(self, axis: int) -> Iterator[_Run]:
        """Yield runs of elements along an axis whose sources are evenly spaced."""
        sources = self._sources(axis)
        at = 0
        while at < len(sources):
            stop = at + 1
            step = None if sources[at] < 0 else 1
            if step is None:
                while stop < len(sources) and sources[stop] < 0:
                    stop += 1
            elif stop < len(sources) and sources[stop] >= 0:
                step = sources[stop] - sources[at]
                while stop < len(sources) and sources[stop] - sources[stop - 1] == step:
                    stop += 1
                    if stop < len(sources) and sources[stop] < 0:
                        break
            yield _Run(at, stop - at, sources[at], step)
            at = stop

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Pad, then cut off."""
        x = inputs["x"]
        around = [(max(b, 0), max(e, 0)) for b, e in zip(self.begin, self.end, strict=True)]
        options: dict[str, Any] = {}
        if self.mode is PadMode.CONSTANT:
            options["constant_values"] = x.dtype.type(self.value)
        padded = np.pad(x, around, mode=self.mode.value, **options)
        cut = (
            slice(max(-b, 0), size - max(-e, 0))
            for b, e, size in zip(self.begin, self.end, padded.shape, strict=True)
        )
        return {"y": padded[tuple(cut)]}


@dataclass(frozen=True, slots=True)
class _Run:
    """Elements along an axis from ``at`` on: from which element of x on, and how far apart."""

    at: int
    count: int
    begin: int
    step: int | None  # None: they are of no element of x


@dataclass(frozen=True, kw_only=True)
class ConcatProblem(Rearrangement):
    """Tensors ``x0``, ``x1``, .. behind each other along an axis."""

    kind: ClassVar[str] = "concat"

    shapes: tuple[Shape, ...]
    axis: int

    def __post_init__(self) -> None:
        self._set("shapes", tuple(shape_of("shapes", shape) for shape in self.shapes))
        ranks = {len(shape) for shape in self.shapes}
        others = {shape[: self.axis] + shape[self.axis + 1 :] for shape in self.shapes}
        if len(ranks) != 1 or not 0 <= self.axis < min(ranks) or len(others) != 1:
            raise ProblemError("shapes", self.shapes, f"shapes that differ along axis {self.axis}")
        super().__post_init__()

    def _tensors(self) -> Tensors:
        first, size = self.shapes[0], sum(shape[self.axis] for shape in self.shapes)
        result = (*first[: self.axis], size, *first[self.axis + 1 :])
        inputs = ((f"x{at}", shape, self.dtype) for at, shape in enumerate(self.shapes))
        return *inputs, ("y", result, self.dtype)

    @property
    def moves(self) -> tuple[Walk, ...]:
        """One for each tensor."""
        parts = map(self.operand, self.reads)
        return tuple(
            Walk(part.shape, (View.of(part), place))
            for part, place in _pieces(self.result, self.axis, list(parts))
        )

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Concatenate."""
        return {"y": np.concatenate([inputs[name] for name in self.reads], axis=self.axis)}


@dataclass(frozen=True, kw_only=True)
class SplitProblem(_OfOne):
    """Pieces ``y0``, ``y1``, .. of x along an axis, of these sizes."""

    kind: ClassVar[str] = "split"

    axis: int
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        self._set("sizes", tuple(map(int, self.sizes)))
        if not 0 <= self.axis < len(self.x) or sum(self.sizes) != self.x[self.axis]:
            raise ProblemError("sizes", self.sizes, f"sizes along axis {self.axis} of {self.x}")
        super().__post_init__()

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the pieces."""
        return tuple(f"y{at}" for at in range(len(self.sizes)))

    @property
    def shape_of_result(self) -> Shape:
        """The shape of the first piece."""
        return self._shape(self.sizes[0])

    def _shape(self, size: int) -> Shape:
        return (*self.x[: self.axis], size, *self.x[self.axis + 1 :])

    def _tensors(self) -> Tensors:
        pieces = (
            (name, self._shape(size), self.dtype)
            for name, size in zip(self.writes, self.sizes, strict=True)
        )
        return ("x", self.x, self.dtype), *pieces

    @property
    def moves(self) -> tuple[Walk, ...]:
        """One for each piece."""
        parts = list(map(self.operand, self.writes))
        return tuple(
            Walk(part.shape, (place, View.of(part)))
            for part, place in _pieces(self.operand("x"), self.axis, parts)
        )

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Cut."""
        cuts = np.cumsum(self.sizes)[:-1]
        return dict(zip(self.writes, np.split(inputs["x"], cuts, axis=self.axis), strict=True))


def _pieces(whole: Operand, axis: int, parts: Sequence[Operand]) -> Iterator[tuple[Operand, View]]:
    """Yield the parts of a tensor along an axis, with the views of their places in it."""
    at = 0
    for part in parts:
        yield part, View(whole.name, whole.dtype, at * whole.strides[axis], whole.strides)
        at += part.shape[axis]
