"""Reductions along axes: `Reduce`, `ArgReduce`, `CumulativeSum`, `TopK`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.op import Op
from convfind_networks.ops.pooling import lowest
from convfind_networks.tensor_type import Array, TensorType, is_float


class ReduceFunction(StrEnum):
    """The function that makes one element of many."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    L1 = "l1"
    L2 = "l2"
    LOG_SUM = "log-sum"
    LOG_SUM_EXP = "log-sum-exp"
    SUM_SQUARE = "sum-square"


def _max(x: Array, **where: Any) -> Any:
    if x.dtype == np.bool_:
        return np.any(x, **where)
    return np.max(x, initial=lowest(x.dtype), **where)


def _min(x: Array, **where: Any) -> Any:
    if x.dtype == np.bool_:
        return np.all(x, **where)
    return np.min(x, initial=np.inf if is_float(x.dtype) else np.iinfo(x.dtype).max, **where)


def _log_sum_exp(x: Array, **where: Any) -> Any:
    return np.logaddexp.reduce(x, **where)


_REDUCE: dict[ReduceFunction, Callable[..., Any]] = {
    ReduceFunction.SUM: np.sum,
    ReduceFunction.MEAN: np.mean,
    ReduceFunction.MAX: _max,
    ReduceFunction.MIN: _min,
    ReduceFunction.PROD: np.prod,
    ReduceFunction.L1: lambda x, **where: np.sum(np.abs(x), **where),
    ReduceFunction.L2: lambda x, **where: np.sqrt(np.sum(np.square(x), **where)),
    ReduceFunction.LOG_SUM: lambda x, **where: np.log(np.sum(x, **where)),
    ReduceFunction.LOG_SUM_EXP: _log_sum_exp,
    ReduceFunction.SUM_SQUARE: lambda x, **where: np.sum(np.square(x), **where),
}


def _check_axis(axis: int, x: TensorType) -> None:
    if not 0 <= axis < x.rank:
        raise GraphError(f"axis {axis} is none of {x}")


@dataclass(frozen=True)
class Reduce(Op):
    """One element for all along some axes. Reads x."""

    function: ReduceFunction
    axes: tuple[int, ...]
    keepdims: bool = True

    def infer(self, x: TensorType) -> TensorType:
        """Return the type with those axes of size 1, or without them."""
        for axis in self.axes:
            _check_axis(axis, x)
        sizes = [1 if axis in self.axes else size for axis, size in enumerate(x.shape)]
        if not self.keepdims:
            sizes = [size for axis, size in enumerate(sizes) if axis not in self.axes]
        return x.with_shape(sizes)

    def evaluate(self, x: Array) -> Array:
        """Reduce."""
        return np.asarray(_REDUCE[self.function](x, axis=self.axes, keepdims=self.keepdims))


@dataclass(frozen=True)
class ArgReduce(Op):
    """Where the largest or least element along an axis is, as int64. Reads x."""

    largest: bool
    axis: int
    keepdims: bool = True
    last: bool = False  # of equal elements, the last

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of the indices."""
        _check_axis(self.axis, x)
        after = x.shape[self.axis + 1 :]
        kept = (1,) if self.keepdims else ()
        return x.with_shape((*x.shape[: self.axis], *kept, *after)).with_dtype(np.int64)

    def evaluate(self, x: Array) -> Array:
        """Search along the axis."""
        search = np.argmax if self.largest else np.argmin
        if not self.last:
            return np.asarray(search(x, axis=self.axis, keepdims=self.keepdims))
        found = search(np.flip(x, self.axis), axis=self.axis, keepdims=self.keepdims)
        return np.asarray(x.shape[self.axis] - 1 - found)


@dataclass(frozen=True)
class CumulativeSum(Op):
    """Sums of the elements up to each one along an axis. Reads x."""

    axis: int
    exclusive: bool = False
    reverse: bool = False

    #: The function that adds elements, and the number that sums begin with.
    _accumulate: ClassVar[Callable[..., Array]] = staticmethod(np.cumsum)
    _first: ClassVar[int] = 0

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of x."""
        _check_axis(self.axis, x)
        return x

    def evaluate(self, x: Array) -> Array:
        """Add along the axis."""
        ordered = np.flip(x, self.axis) if self.reverse else x
        sums = self._accumulate(ordered, axis=self.axis, dtype=x.dtype)
        if self.exclusive:
            sums = np.roll(sums, 1, self.axis)
            np.moveaxis(sums, self.axis, 0)[:1] = self._first
        return np.flip(sums, self.axis) if self.reverse else sums


@dataclass(frozen=True)
class CumulativeProduct(CumulativeSum):
    """Products of the elements up to each one along an axis. Reads x."""

    _accumulate: ClassVar[Callable[..., Array]] = staticmethod(np.cumprod)
    _first: ClassVar[int] = 1


@dataclass(frozen=True)
class TopK(Op):
    """The largest or least elements along an axis, in order, and their places. Reads x."""

    count: int
    axis: int
    largest: bool = True

    def infer(self, x: TensorType) -> tuple[TensorType, ...]:
        """Return the types of the elements and of their places (int64)."""
        _check_axis(self.axis, x)
        if not 0 <= self.count <= x.shape[self.axis]:
            raise GraphError(f"{self.count} of the {x.shape[self.axis]} elements along an axis")
        sizes = list(x.shape)
        sizes[self.axis] = self.count
        return x.with_shape(sizes), x.with_shape(sizes).with_dtype(np.int64)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        """Sort; of equal elements the first comes first."""
        if self.largest:
            backwards = np.argsort(np.flip(x, self.axis), axis=self.axis, kind="stable")
            order = x.shape[self.axis] - 1 - np.flip(backwards, self.axis)
        else:
            order = np.argsort(x, axis=self.axis, kind="stable")
        places = np.take(order, np.arange(self.count), axis=self.axis)
        return np.take_along_axis(x, places, self.axis), places
