"""`Convolution` with its epilogue, and `IntegerConvolution`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.checking.reference import reference_convolution
from convfind_networks.errors import GraphError
from convfind_networks.ops.epilogue import NO_EPILOGUE, Epilogue
from convfind_networks.ops.geometry import Geometry
from convfind_networks.ops.op import Op, scaled
from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True)
class Convolution(Op):
    """A convolution in one to three dimensions, transposed or not, with an epilogue.

    Reads x (N, C, spatial), w (K, C/groups, filter; transposed: C, K/groups, filter), then what
    the epilogue reads.
    """

    follows_layout: ClassVar[bool] = True
    #: Axis of the output channels in the result.
    channel_axis: ClassVar[int] = 1

    geometry: Geometry
    epilogue: Epilogue = NO_EPILOGUE

    @property
    def in_place(self) -> tuple[int, ...]:  # type: ignore[override]  # which depends on it
        """The residual, unless it is added last."""
        return self.epilogue.in_place

    def infer(self, x: TensorType, w: TensorType, *more: TensorType) -> TensorType:
        """Return the type of the result."""
        if x.dtype != w.dtype or not x.is_float:
            raise GraphError(f"x and w are of one floating type, not {x} and {w}")
        shape = self.geometry.problem(x.shape, w.shape).y_shape
        self.epilogue.check(x.with_shape(shape), shape[1], more)
        return x.with_shape(shape)

    def evaluate(self, x: Array, w: Array, *more: Array) -> Array:
        """Compute the sums with core's reference, then the epilogue."""
        problem = self.geometry.problem(x.shape, w.shape, dtype="float64")
        return self.epilogue.apply(reference_convolution(problem, x, w), self.channel_axis, more)

    def macs(self, x: TensorType, w: TensorType, *_: TensorType) -> int:
        """Multiply-accumulate operations of the direct formula."""
        return self.geometry.problem(x.shape, w.shape).macs

    def scaled_weights(self, w: Array, by: Array) -> Array:
        """Return weights that give results scaled by a number for each output channel."""
        if not self.geometry.transposed:
            return scaled(w, by.reshape(-1, *(1,) * (w.ndim - 1)))
        groups = self.geometry.groups
        split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
        return scaled(split, by.reshape(groups, 1, -1, *(1,) * (w.ndim - 2))).reshape(w.shape)


@dataclass(frozen=True)
class IntegerConvolution(Op):
    """A convolution of 8-bit whole numbers with int32 sums.

    Reads x, w, the zero point of x (a scalar) and the zero point of w (a scalar, or one for each
    output channel). Padding counts as the zero point.
    """

    follows_layout: ClassVar[bool] = True

    geometry: Geometry

    def infer(
        self, x: TensorType, w: TensorType, x_zero: TensorType, w_zero: TensorType
    ) -> TensorType:
        """Return the type of the result: int32."""
        if any(kind.dtype.itemsize != 1 or kind.is_float for kind in (x, w, x_zero, w_zero)):
            raise GraphError(f"x and w are int8 or uint8, not {x} and {w}")
        shape = self.geometry.problem(x.shape, w.shape).y_shape
        if x_zero.elements != 1 or w_zero.elements not in (1, shape[1]):
            raise GraphError("x has one zero point, w has one or one for each output channel")
        return x.with_shape(shape).with_dtype(np.int32)

    def evaluate(self, x: Array, w: Array, x_zero: Array, w_zero: Array) -> Array:
        """Compute the sums, which float64 holds exactly."""
        problem = self.geometry.problem(x.shape, w.shape, dtype="float64")
        zeros = w_zero.reshape(-1, *(1,) * (w.ndim - 1)).astype(np.float64)
        sums = reference_convolution(problem, x - x_zero.astype(np.float64).reshape(()), w - zeros)
        return sums.astype(np.int64).astype(np.int32)

    def macs(self, x: TensorType, w: TensorType, *_: TensorType) -> int:
        """Multiply-accumulate operations of the direct formula."""
        return self.geometry.problem(x.shape, w.shape).macs
