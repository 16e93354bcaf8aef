"""Classifiers of images of 224 x 224."""

from __future__ import annotations

import numpy as np
import onnx

from models.builder import Builder, Tensor


def _images(name: str, batch: int) -> Builder:
    return Builder(name, batch, 3, (224, 224))


def squeezenet(batch: int) -> onnx.ModelProto:
    """Return SqueezeNet 1.1."""
    b = _images("squeezenet", batch)
    x = b.relu(b.conv(b.input, 64, 3, stride=2, padding=0))

    def fire(x: Tensor, squeezed: int, expanded: int) -> Tensor:
        s = b.relu(b.conv(x, squeezed))
        return b.concat(b.relu(b.conv(s, expanded)), b.relu(b.conv(s, expanded, 3)))

    for squeezed, expanded, count in ((16, 64, 2), (32, 128, 2)):
        x = b.pool(x, 3, 2)
        for _ in range(count):
            x = fire(x, squeezed, expanded)
    x = b.pool(x, 3, 2)
    for squeezed, expanded in ((48, 192), (48, 192), (64, 256), (64, 256)):
        x = fire(x, squeezed, expanded)
    return b.model(b.average(b.relu(b.conv(x, 1000))))


def densenet121(batch: int) -> onnx.ModelProto:
    """Return DenseNet-121."""
    b = _images("densenet121", batch)
    x = b.relu(b.norm(b.conv(b.input, 64, 7, stride=2, bias=False)))
    x = b.pool(x, 3, 2, 1)
    for stage, count in enumerate((6, 12, 24, 16)):
        for _ in range(count):
            y = b.conv(b.relu(b.norm(x)), 128, bias=False)
            y = b.conv(b.relu(b.norm(y)), 32, 3, bias=False)
            x = b.concat(x, y)
        x = b.relu(b.norm(x))
        if stage < 3:
            x = b.conv(x, x.channels // 2, bias=False)
            x = b.add("AveragePool", x.channels, x, kernel_shape=[2, 2], strides=[2, 2])
    return b.model(b.classifier(x))


def efficientnet_b0(batch: int) -> onnx.ModelProto:
    """Return EfficientNet-B0."""
    b = _images("efficientnet_b0", batch)
    x = b.silu(b.norm(b.conv(b.input, 32, 3, stride=2, bias=False)))

    def block(x: Tensor, out: int, grow: int, size: int, stride: int) -> Tensor:
        wide = x.channels * grow
        y = x if grow == 1 else b.silu(b.norm(b.conv(x, wide, bias=False)))
        y = b.silu(b.norm(b.conv(y, wide, size, stride=stride, groups=wide, bias=False)))
        y = b.excite(y, x.channels // 4, silu=True)
        y = b.norm(b.conv(y, out, bias=False))
        return b.sum(y, x) if stride == 1 and out == x.channels else y

    for grow, out, count, stride, size in (
        *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
        *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
    ):
        for at in range(count):
            x = block(x, out, grow, size, 1 if at else stride)
    return b.model(b.classifier(b.silu(b.norm(b.conv(x, 1280, bias=False)))))


def convnext_t(batch: int) -> onnx.ModelProto:
    """Return ConvNeXt-T."""
    b = _images("convnext_t", batch)

    def last(x: Tensor) -> Tensor:
        return b.transpose(x, 0, 2, 3, 1)

    def first(x: Tensor) -> Tensor:
        return b.transpose(x, 0, 3, 1, 2)

    def block(x: Tensor) -> Tensor:
        y = b.layer_norm(last(b.conv(x, x.channels, 7, groups=x.channels)))
        y = b.add("Gelu", 4 * y.channels, b.linear(y, 4 * y.channels))
        scale = b.random(x.channels, scale=0.1, middle=0.3)
        return b.sum(first(b.mul(b.linear(y, x.channels), scale)), x)

    x = b.input
    for stage, (channels, count) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        size = 2 if stage else 4
        x = first(b.layer_norm(last(x))) if stage else x
        x = b.conv(x, channels, size, stride=size, padding=0)
        x = x if stage else first(b.layer_norm(last(x)))
        for _ in range(count):
            x = block(x)
    mean = b.add("ReduceMean", x.channels, x, b.constant(np.array([2, 3])), keepdims=0)
    return b.model(b.linear(b.layer_norm(mean), 1000))


def regnety_16gf(batch: int) -> onnx.ModelProto:
    """Return RegNetY-1.6GF."""
    b = _images("regnety_1.6gf", batch)
    x = b.relu(b.norm(b.conv(b.input, 32, 3, stride=2, bias=False)))

    def block(x: Tensor, out: int, stride: int) -> Tensor:
        y = b.relu(b.norm(b.conv(x, out, bias=False)))
        y = b.relu(b.norm(b.conv(y, out, 3, stride=stride, groups=out // 24, bias=False)))
        y = b.norm(b.conv(b.excite(y, x.channels // 4, silu=False), out, bias=False))
        if stride > 1 or out != x.channels:
            x = b.norm(b.conv(x, out, stride=stride, bias=False))
        return b.relu(b.sum(y, x))

    for out, count in ((48, 2), (120, 6), (336, 17), (888, 2)):
        for at in range(count):
            x = block(x, out, 1 if at else 2)
    return b.model(b.classifier(x))
