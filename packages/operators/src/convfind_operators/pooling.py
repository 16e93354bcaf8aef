"""`PoolingProblem`: the largest or the mean element of each window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from convfind.cached import cached_property
from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import Operator, shape_of, word
from convfind_operators.reduction import ReductionFunction, ReductionProblem
from convfind_operators.window import Window, per_axis


class PoolingFunction(StrEnum):
    """The function of a pooling's window."""

    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True, kw_only=True)
class PoolingProblem(Operator):
    """Pooling of x (N, C, one to three spatial axes), to y, and to int64 ``indices`` if asked.

    Attributes:
        function: padding never is the largest; a NaN always is.
        size, stride, padding, padding_end, dilation, ceil_mode: the window; a number, or one for
            each spatial axis. Without ``padding_end`` it is as ``padding``.
        count_include_pad: the mean counts padding too; what ``ceil_mode`` adds beyond it never.
        divisor: of the mean, in place of a count.
        indices: also say where in the flattened x, in N, C, spatial order, each largest element
            is; of equal ones the first.
    """

    kind: ClassVar[str] = "pooling"

    x: Shape
    function: PoolingFunction
    size: tuple[int, ...]
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    padding_end: tuple[int, ...] | None = None
    dilation: tuple[int, ...] = (1,)
    ceil_mode: bool = False
    count_include_pad: bool = False
    divisor: int | None = None
    indices: bool = False

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        self._set("function", word("function", PoolingFunction, self.function))
        rank = len(self.x) - 2
        if not 1 <= rank <= 3:
            raise ProblemError("x", self.x, "batch, channels and one to three spatial sizes")
        if self.padding_end is None:
            self._set("padding_end", self.padding)
        for name, least in _LEAST.items():
            value: Any = getattr(self, name)
            if isinstance(value, tuple) and len(value) == 1:
                value = value[0]
            self._set(name, per_axis(name, value, rank, least))
        if self.indices and self.function is not PoolingFunction.MAX:
            raise ProblemError("indices", True, "function max")
        super().__post_init__()

    @cached_property
    def window(self) -> Window:
        """How the windows step over the data."""
        assert self.padding_end is not None
        return Window(
            self.size, self.stride, self.padding, self.padding_end, self.dilation, self.ceil_mode
        )

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        result = (*self.x[:2], *self.window.result(self.x[2:]))
        tensors = (("x", self.x, self.dtype), ("y", result, self.dtype))
        return (*tensors, ("indices", result, ElementType.INT64)) if self.indices else tensors

    @property
    def writes(self) -> tuple[str, ...]:
        """The result, and the indices."""
        return ("y", "indices") if self.indices else ("y",)

    @property
    def is_global(self) -> bool:
        """True if the only window is the image, without padding."""
        window = self.window
        plain = not any(window.padding) and not self.indices and self.divisor is None
        return plain and window.size == self.x[2:] and max(window.dilation) == 1

    @property
    def reduction(self) -> ReductionProblem:
        """The same along the spatial axes, of a global pooling."""
        return ReductionProblem(
            x=self.x,
            function=_REDUCTIONS[self.function],
            axes=tuple(range(2, len(self.x))),
            dtype=self.dtype,
            channels_last=self.channels_last,
            strides=self.strides,
        )

    @property
    def flops(self) -> float:
        """One for each tap of each window."""
        return float(self.result.elements * self.window.taps)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Compare or add the taps of the window, one after the other."""
        x = inputs["x"]
        if self.function is PoolingFunction.AVERAGE:
            if not self.dtype.is_float:  # a sum of bytes is no byte
                x = x.astype(self.dtype.arithmetic.numpy)
            return {"y": sum(self.window.met(x, 0)) / self._counts()}
        taps = self.window.met(x, _lowest(x.dtype))
        places = self.window.met(np.arange(x.size).reshape(x.shape), -1)
        best, place = next(taps), next(places)
        for tap, at in zip(taps, places, strict=True):
            is_nan = (tap != tap) & (best == best)
            better = (at >= 0) & ((tap > best) | is_nan | (place < 0))
            best, place = np.where(better, tap, best), np.where(better, at, place)
        return {"y": best, "indices": place} if self.indices else {"y": best}

    def _counts(self) -> Any:
        if self.divisor is not None:
            return self.divisor
        ones = np.ones((1, 1, *self.x[2:]))
        return sum(self.window.met(ones, 1 if self.count_include_pad else 0, border=0))

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the roundings of a sum come to; a largest element has none."""
        if self.function is PoolingFunction.MAX:
            return {name: np.zeros(right.shape) for name, right in results.items()}
        sums = sum(self.window.met(np.abs(inputs["x"]), 0)) / np.abs(self._counts())
        unit = self.dtype.arithmetic.unit_roundoff
        return {"y": (self.window.taps + 2) * unit * np.asarray(sums)}


_REDUCTIONS = {
    PoolingFunction.MAX: ReductionFunction.MAX,
    PoolingFunction.AVERAGE: ReductionFunction.MEAN,
}
_LEAST = {"size": 1, "stride": 1, "padding": 0, "padding_end": 0, "dilation": 1}


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -math.inf if dtype.kind == "f" else np.iinfo(dtype).min
