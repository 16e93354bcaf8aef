"""`Builder`: an ONNX model in the making: layers with random weights, one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET = 21


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the model, by name, and its channels."""

    name: str
    channels: int


class Builder:
    """Layers for images in some axes; weights keep the size of what passes through them."""

    def __init__(self, name: str, batch: int, channels: int, size: Sequence[int]) -> None:
        self._name, self._axes = name, len(size)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._rng = np.random.default_rng(0)
        self._shape = (batch, channels, *size)
        self.input = Tensor("x", channels)

    def add(self, kind: str, channels: int, *inputs: Tensor | str, **attributes: Any) -> Tensor:
        """Append a node of ONNX."""
        name = f"{kind.lower()}_{len(self._nodes)}"
        reads = [one.name if isinstance(one, Tensor) else one for one in inputs]
        self._nodes.append(helper.make_node(kind, reads, [name], **attributes))
        return Tensor(name, channels)

    def constant(self, array: Any) -> str:
        """Return the name of a constant."""
        name = f"w_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, *shape: int, scale: float, middle: float = 0.0) -> str:
        """Return the name of random weights."""
        array = self._rng.standard_normal(shape, dtype=np.float32) * scale + middle
        return self.constant(array.astype(np.float32))

    def conv(
        self,
        x: Tensor,
        channels: int,
        size: int = 1,
        *,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        padding: int | None = None,
        bias: bool = True,
    ) -> Tensor:
        """Return a convolution; padding keeps the size where none is given."""
        each, axes = x.channels // groups, self._axes
        pad = dilation * (size - 1) // 2 if padding is None else padding
        scale = 1 / math.sqrt(each * size**axes)
        weights = [self.random(channels, each, *[size] * axes, scale=scale)]
        if bias:
            weights.append(self.random(channels, scale=0.1))
        return self.add(
            "Conv",
            channels,
            x,
            *weights,
            kernel_shape=[size] * axes,
            strides=[stride] * axes,
            dilations=[dilation] * axes,
            pads=[pad] * (2 * axes),
            group=groups,
        )

    def upconv(self, x: Tensor, channels: int) -> Tensor:
        """Return a transposed convolution that doubles the size."""
        axes, scale = self._axes, 1 / math.sqrt(x.channels)
        w = self.random(x.channels, channels, *[2] * axes, scale=scale)
        two = [2] * axes
        return self.add("ConvTranspose", channels, x, w, kernel_shape=two, strides=two)

    def norm(self, x: Tensor) -> Tensor:
        """Return a batch norm with statistics that are not the usual ones."""
        parameters = [
            self.random(x.channels, scale=0.1, middle=1.0),
            self.random(x.channels, scale=0.1),
            self.random(x.channels, scale=0.1),
            self.constant(self._rng.uniform(0.5, 1.5, x.channels).astype(np.float32)),
        ]
        return self.add("BatchNormalization", x.channels, x, *parameters)

    def group_norm(self, x: Tensor, groups: int) -> Tensor:
        """Return a group norm."""
        scale = self.random(x.channels, scale=0.1, middle=1.0)
        bias = self.random(x.channels, scale=0.1)
        return self.add("GroupNormalization", x.channels, x, scale, bias, num_groups=groups)

    def layer_norm(self, x: Tensor) -> Tensor:
        """Return a layer norm over the last axis, of the channels."""
        scale = self.random(x.channels, scale=0.1, middle=1.0)
        bias = self.random(x.channels, scale=0.1)
        return self.add("LayerNormalization", x.channels, x, scale, bias, axis=-1)

    def linear(self, x: Tensor, channels: int) -> Tensor:
        """Return a product with weights over the last axis, and a bias."""
        w = self.random(x.channels, channels, scale=1 / math.sqrt(x.channels))
        product = self.add("MatMul", channels, x, w)
        return self.add("Add", channels, product, self.random(channels, scale=0.1))

    def relu(self, x: Tensor) -> Tensor:
        """Return max(x, 0)."""
        return self.add("Relu", x.channels, x)

    def silu(self, x: Tensor) -> Tensor:
        """Return x * sigmoid(x), spelled out as exporters do."""
        return self.mul(x, self.add("Sigmoid", x.channels, x))

    def mul(self, x: Tensor, other: Tensor | str) -> Tensor:
        """Return a product of elements."""
        return self.add("Mul", x.channels, x, other)

    def sum(self, x: Tensor, other: Tensor | str) -> Tensor:
        """Return a sum of elements."""
        return self.add("Add", x.channels, x, other)

    def concat(self, *parts: Tensor) -> Tensor:
        """Return channels one behind the other."""
        return self.add("Concat", sum(one.channels for one in parts), *parts, axis=1)

    def pool(self, x: Tensor, size: int, stride: int, padding: int = 0) -> Tensor:
        """Return the largest of windows."""
        axes = self._axes
        return self.add(
            "MaxPool",
            x.channels,
            x,
            kernel_shape=[size] * axes,
            strides=[stride] * axes,
            pads=[padding] * (2 * axes),
        )

    def upsample(self, x: Tensor) -> Tensor:
        """Return every element twice along each axis."""
        scales = self.constant(np.array([1.0, 1.0, *[2.0] * self._axes], np.float32))
        return self.add(
            "Resize",
            x.channels,
            x,
            "",
            scales,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def average(self, x: Tensor) -> Tensor:
        """Return the mean of each channel, in an image of one element."""
        return self.add("GlobalAveragePool", x.channels, x)

    def excite(self, x: Tensor, squeezed: int, *, silu: bool) -> Tensor:
        """Return channels scaled by what a small network makes of their means."""
        hidden = self.conv(self.average(x), squeezed)
        hidden = self.silu(hidden) if silu else self.relu(hidden)
        return self.mul(x, self.add("Sigmoid", x.channels, self.conv(hidden, x.channels)))

    def classifier(self, x: Tensor, classes: int = 1000) -> Tensor:
        """Return the mean of each channel, and a linear layer of it."""
        flat = self.add("Flatten", x.channels, self.average(x), axis=1)
        return self.linear(flat, classes)

    def transpose(self, x: Tensor, *order: int) -> Tensor:
        """Return axes in another order."""
        return self.add("Transpose", x.channels, x, perm=list(order))

    def reshape(self, x: Tensor, *shape: int) -> Tensor:
        """Return another shape."""
        return self.add("Reshape", x.channels, x, self.constant(np.array(shape, np.int64)))

    def model(self, result: Tensor) -> onnx.ModelProto:
        """Return the model whose result this is."""
        made = helper.make_graph(
            [*self._nodes, helper.make_node("Identity", [result.name], ["y"])],
            self._name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self._shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            self._weights,
        )
        opset = helper.make_opsetid("", _OPSET)
        return onnx.shape_inference.infer_shapes(
            helper.make_model(made, ir_version=10, opset_imports=[opset])
        )
