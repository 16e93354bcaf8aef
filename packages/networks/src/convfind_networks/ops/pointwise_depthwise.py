"""`PointwiseDepthwise`: a 1x1 convolution and a depthwise one of its result, as one operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from convfind_networks.ops.convolution import Convolution
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True)
class PointwiseDepthwise(Op):
    """Two convolutions with biases: what is between them need not be in memory.

    Reads x, weights and bias of the 1x1 convolution, weights and bias of the depthwise one.
    """

    follows_layout: ClassVar[bool] = True

    pointwise: Convolution
    depthwise: Convolution

    def infer(
        self, x: TensorType, w: TensorType, bias: TensorType, *depthwise: TensorType
    ) -> TensorType:
        """Return the type of the result."""
        return self.depthwise.infer(self.pointwise.infer(x, w, bias), *depthwise)

    def evaluate(self, x: Array, w: Array, bias: Array, *depthwise: Array) -> Array:
        """Compute one convolution after the other."""
        return self.depthwise.evaluate(self.pointwise.evaluate(x, w, bias), *depthwise)

    def macs(self, x: TensorType, w: TensorType, bias: TensorType, *depthwise: TensorType) -> int:
        """Multiply-accumulate operations of both direct formulas."""
        between = self.pointwise.infer(x, w, bias)
        return self.pointwise.macs(x, w) + self.depthwise.macs(between, *depthwise)
