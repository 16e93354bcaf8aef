"""`BuiltIn`: known architectures with random weights, to try and to time without a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convfind_networks.graph import Graph, GraphBuilder, Value
from convfind_networks.importing import Composer
from convfind_networks.model import Bound, ModelInput
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BatchNorm,
    Convolution,
    Epilogue,
    Geometry,
    GlobalPool,
    Linear,
    MaxPool,
    PoolKind,
    Window,
)
from convfind_networks.tensor_type import Array, TensorType

_RELU = Activation(ActivationKind.RELU)
_RELU6 = Activation(ActivationKind.CLIP, (0, 6))


@dataclass(frozen=True)
class BuiltIn:
    """An architecture for images of 224x224 and 1,000 classes; weights are drawn, always alike."""

    name: str
    layers: Callable[[_Layers, Value], Value]

    @property
    def inputs(self) -> Sequence[ModelInput]:
        """The images."""
        return (ModelInput("x", np.dtype(np.float32), ("batch", 3, 224, 224)),)

    def graph(self, bound: Bound) -> Graph:
        """Return the graph for a batch; see `Model`."""
        layers = _Layers(GraphBuilder())
        one = bound["x"]
        x = (
            layers.builder.input("x", one)
            if isinstance(one, TensorType)
            else layers.builder.constant(one, name="x")
        )
        return layers.builder.graph({"y": self.layers(layers, x)})


class _Layers(Composer):
    """Layers with random weights, scaled so that values stay near 1."""

    def __init__(self, builder: GraphBuilder) -> None:
        super().__init__(builder, "layer")
        self._rng = np.random.default_rng(0)

    def _drawn(self, *shape: int) -> Array:
        spread = np.float32((2 / np.prod(shape[1:])) ** 0.5)
        return self._rng.standard_normal(shape, dtype=np.float32) * spread

    def convolution(
        self, x: Value, channels: int, size: int = 1, stride: int = 1, groups: int = 1
    ) -> Value:
        """Add a convolution without bias, which keeps the image's size but for the stride."""
        padding = (size // 2,) * 2
        geometry = Geometry((stride,) * 2, padding, padding, (1, 1), groups)
        w = self._drawn(channels, x.shape[1] // groups, size, size)
        return self.add(Convolution(geometry), x, self.const(w))

    def biased(self, x: Value) -> Value:
        """Add a bias for each channel."""
        bias = self._rng.uniform(-0.1, 0.1, (x.shape[1], 1, 1)).astype(np.float32)
        return self.plus(x, self.const(bias))

    def norm(self, x: Value) -> Value:
        """Add a batch norm."""
        channels = x.shape[1]
        drawn = [
            self._rng.uniform(low, high, channels).astype(np.float32)
            for low, high in ((0.8, 1.2), (-0.1, 0.1), (-0.1, 0.1), (0.8, 1.2))
        ]
        return self.add(BatchNorm(), x, *map(self.const, drawn))

    def activation(self, x: Value, activation: Activation = _RELU) -> Value:
        """Add an activation."""
        return self.add(Activate(activation), x)

    def max_pool(self, x: Value, size: int, padding: int = 0) -> Value:
        """Add a max pooling with a stride of 2."""
        window = Window((size,) * 2, (2, 2), (padding,) * 2, (padding,) * 2, (1, 1))
        return self.add(MaxPool(window), x)

    def pooled(self, x: Value) -> Value:
        """Add a mean of each channel: (N, C)."""
        return self.reshape(self.add(GlobalPool(PoolKind.AVERAGE), x), *x.shape[:2])

    def linear(self, x: Value, channels: int) -> Value:
        """Add a linear layer with a bias."""
        bias = self._rng.uniform(-0.1, 0.1, channels).astype(np.float32)
        w = self._drawn(channels, x.shape[1])
        return self.add(Linear(Epilogue(bias=True)), x, self.const(w), self.const(bias))


def _resnet50(add: _Layers, x: Value) -> Value:
    x = add.max_pool(add.activation(add.norm(add.convolution(x, 64, 7, 2))), 3, 1)
    for stage, (width, blocks) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = add.activation(add.norm(add.convolution(x, width)))
            y = add.activation(add.norm(add.convolution(y, width, 3, stride)))
            y = add.norm(add.convolution(y, 4 * width))
            if not block:
                x = add.norm(add.convolution(x, 4 * width, 1, stride))
            x = add.activation(add.plus(y, x))
    return add.linear(add.pooled(x), 1000)


def _vgg16(add: _Layers, x: Value) -> Value:
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            x = add.activation(add.biased(add.convolution(x, width, 3)))
        x = add.max_pool(x, 2)
    x = add.reshape(x, x.shape[0], x.type.elements // max(x.shape[0], 1))
    for _ in range(2):
        x = add.activation(add.linear(x, 4096))
    return add.linear(x, 1000)


def _mobilenet_v2(add: _Layers, x: Value) -> Value:
    x = add.activation(add.norm(add.convolution(x, 32, 3, 2)), _RELU6)
    for grow, out, blocks, stride in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for block in range(blocks):
            channels, width, y = x.shape[1], x.shape[1] * grow, x
            if grow > 1:
                y = add.activation(add.norm(add.convolution(y, width)), _RELU6)
            y = add.convolution(y, width, 3, 1 if block else stride, groups=width)
            y = add.norm(add.convolution(add.activation(add.norm(y), _RELU6), out))
            x = add.plus(x, y) if block and channels == out else y
    x = add.activation(add.norm(add.convolution(x, 1280)), _RELU6)
    return add.linear(add.pooled(x), 1000)


#: The networks, by name.
BUILT_IN: Mapping[str, BuiltIn] = {
    name: BuiltIn(name, layers)
    for name, layers in (
        *(("resnet50", _resnet50), ("vgg16", _vgg16), ("mobilenet_v2", _mobilenet_v2)),
    )
}
