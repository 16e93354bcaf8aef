"""`PadProblem`: a tensor with elements around it, by the modes of `PadMode`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.checking.borders import PadMode, padded
from convfind.errors import ProblemError
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import shape_of, word
from convfind_operators.rearrangement import OfOneTensor
from convfind_operators.walk import View, Walk


@dataclass(frozen=True, kw_only=True)
class PadProblem(OfOneTensor):
    """x with elements around it; negative numbers cut some off.

    Attributes:
        begin: elements before x along each axis.
        end: elements behind it.
        mode: which elements they are.
        value: the elements, in the mode ``constant``.
    """

    kind: ClassVar[str] = "pad"

    begin: tuple[int, ...]
    end: tuple[int, ...]
    mode: PadMode = PadMode.CONSTANT
    value: float = 0.0

    def __post_init__(self) -> None:
        self._numbers("begin", "end")
        self._set("mode", word("mode", PadMode, self.mode))
        super().__post_init__()
        if not (self.dtype.is_float or math.isfinite(self.value)):
            raise ProblemError("value", self.value, f"a finite number among {self.dtype}")

    @property
    def shape_of_result(self) -> Shape:
        """The sizes grown."""
        return shape_of(
            "x", [n + b + e for n, b, e in zip(self.x, self.begin, self.end, strict=True)]
        )

    @property
    def filling(self) -> float:
        """The number around x."""
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
        places = np.arange(self.x[axis])
        found = padded(
            places, self.begin[axis : axis + 1], self.end[axis : axis + 1], self.mode, -1
        )
        return [int(at) for at in found]

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
        return {"y": padded(inputs["x"], self.begin, self.end, self.mode, self.value)}


@dataclass(frozen=True, slots=True)
class _Run:
    """Elements along an axis from ``at`` on: from which element of x on, and how far apart."""

    at: int
    count: int
    begin: int
    step: int | None  # None: they are of no element of x
