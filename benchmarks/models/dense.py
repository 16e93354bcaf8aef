"""Networks with a result for each place: a detector, U-Nets, and one along time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from models.builder import Builder, Tensor


def yolo(batch: int) -> onnx.ModelProto:
    """Return a detector of YOLOv8's kind, its smallest, for images of 640 x 640."""
    b = Builder("yolo_640", batch, 3, (640, 640))

    def layer(x: Tensor, out: int, size: int = 1, stride: int = 1) -> Tensor:
        return b.silu(b.norm(b.conv(x, out, size, stride=stride, bias=False)))

    def stage(x: Tensor, out: int, count: int, *, shortcut: bool = True) -> Tensor:
        parts = list(_halves(b, layer(x, out)))
        for _ in range(count):
            y = layer(layer(parts[-1], out // 2, 3), out // 2, 3)
            parts.append(b.sum(parts[-1], y) if shortcut else y)
        return layer(b.concat(*parts), out)

    x = layer(layer(b.input, 16, 3, 2), 32, 3, 2)
    x = stage(x, 32, 1)
    p3 = stage(layer(x, 64, 3, 2), 64, 2)
    p4 = stage(layer(p3, 128, 3, 2), 128, 2)
    pools = [layer(stage(layer(p4, 256, 3, 2), 256, 1), 128)]
    for _ in range(3):
        pools.append(b.pool(pools[-1], 5, 1, 2))
    p5 = layer(b.concat(*pools), 256)
    n4 = stage(b.concat(b.upsample(p5), p4), 128, 1, shortcut=False)
    n3 = stage(b.concat(b.upsample(n4), p3), 64, 1, shortcut=False)
    n4 = stage(b.concat(layer(n3, 64, 3, 2), n4), 128, 1, shortcut=False)
    n5 = stage(b.concat(layer(n4, 128, 3, 2), p5), 256, 1, shortcut=False)
    heads = []
    for x, places in ((n3, 80), (n4, 40), (n5, 20)):
        boxes = b.conv(layer(layer(x, 64, 3), 64, 3), 64)
        classes = b.conv(layer(layer(x, 80, 3), 80, 3), 80)
        heads.append(b.reshape(b.concat(boxes, classes), batch, 144, places**2))
    return b.model(b.add("Concat", 144, *heads, axis=2))


def _halves(b: Builder, x: Tensor) -> Sequence[Tensor]:
    half = x.channels // 2

    def part(begin: int) -> Tensor:
        bounds = (np.array([at]) for at in (begin, begin + half, 1))
        return b.add("Slice", half, x, *map(b.constant, bounds))

    return part(0), part(half)


def diffusion_unet(batch: int) -> onnx.ModelProto:
    """Return a small U-Net of Stable Diffusion's kind: residual blocks, attention, 32 x 32."""
    b = Builder("diffusion_unet", batch, 4, (32, 32))
    time = b.random(1, 256, scale=1.0)

    def block(x: Tensor, out: int) -> Tensor:
        y = b.conv(b.silu(b.group_norm(x, 32)), out, 3)
        shift = b.reshape(b.linear(Tensor(time, 256), out), 1, out, 1, 1)
        y = b.conv(b.silu(b.group_norm(b.sum(y, shift), 32)), out, 3)
        return b.sum(y, x if out == x.channels else b.conv(x, out))

    def attention(x: Tensor, side: int) -> Tensor:
        heads, c = 4, x.channels
        flat = b.transpose(b.reshape(b.group_norm(x, 32), batch, c, side**2), 0, 2, 1)

        def head(*order: int) -> Tensor:
            split = b.reshape(b.linear(flat, c), batch, side**2, heads, c // heads)
            return b.transpose(split, *order)

        q, k, v = head(0, 2, 1, 3), head(0, 2, 3, 1), head(0, 2, 1, 3)
        scale = b.constant(np.array(math.sqrt(heads / c), np.float32))
        weights = b.add("Softmax", c, b.mul(b.add("MatMul", c, q, k), scale), axis=-1)
        y = b.transpose(b.add("MatMul", c, weights, v), 0, 2, 1, 3)
        y = b.linear(b.reshape(y, batch, side**2, c), c)
        return b.sum(b.reshape(b.transpose(y, 0, 2, 1), batch, c, side, side), x)

    x = b.conv(b.input, 64, 3)
    skips = [x]
    sides = (32, 16, 8)
    for level, channels in enumerate((64, 128, 256)):
        for _ in range(2):
            x = block(x, channels)
            x = attention(x, sides[level]) if level else x
            skips.append(x)
        if level < 2:
            x = b.conv(x, channels, 3, stride=2)
            skips.append(x)
    x = block(attention(block(x, 256), sides[2]), 256)
    for level, channels in reversed(tuple(enumerate((64, 128, 256)))):
        for _ in range(3):
            x = block(b.concat(x, skips.pop()), channels)
            x = attention(x, sides[level]) if level else x
        if level:
            x = b.conv(b.upsample(x), channels, 3)
    return b.model(b.conv(b.silu(b.group_norm(x, 32)), 4, 3))


def unet_3d(batch: int) -> onnx.ModelProto:
    """Return a 3-D U-Net for volumes of 32 x 64 x 64."""
    b = Builder("unet_3d", batch, 1, (32, 64, 64))

    def layer(x: Tensor, out: int) -> Tensor:
        return b.relu(b.norm(b.conv(x, out, 3, bias=False)))

    x, skips = b.input, []
    for channels in (16, 32, 64):
        x = layer(layer(x, channels), 2 * channels)
        skips.append(x)
        x = b.pool(x, 2, 2)
    x = layer(layer(x, 128), 256)
    for channels in (128, 64, 32):
        x = b.concat(b.upconv(x, x.channels), skips.pop())
        x = layer(layer(x, channels), channels)
    return b.model(b.conv(x, 3))


def wavenet(batch: int) -> onnx.ModelProto:
    """Return a network of WaveNet's kind: gated dilated convolutions along 8,192 samples."""
    b = Builder("wavenet", batch, 1, (8192,))
    x, total = b.conv(b.input, 64, 3), None
    for _ in range(2):
        for step in range(10):
            gate = b.add("Sigmoid", 64, b.conv(x, 64, 3, dilation=2**step))
            y = b.mul(b.add("Tanh", 64, b.conv(x, 64, 3, dilation=2**step)), gate)
            skip = b.conv(y, 128)
            total = skip if total is None else b.sum(total, skip)
            x = b.sum(b.conv(y, 64), x)
    assert total is not None
    return b.model(b.conv(b.relu(b.conv(b.relu(total), 128)), 256))
