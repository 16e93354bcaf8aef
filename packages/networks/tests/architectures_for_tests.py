"""Architectures beyond plain convolutional ones, small and with random weights, from PyTorch."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Architecture:
    """A network with inputs for it, and the sizes of them that its ONNX model leaves open."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    open_sizes: Mapping[str, Mapping[int, str]]

    def sizes(self) -> dict[str, int]:
        """Return the sizes that are open, by the names of the dimensions."""
        return {
            name: self.inputs[tensor].shape[axis]
            for tensor, dims in self.open_sizes.items()
            for axis, name in dims.items()
        }

    def outputs(self) -> list[Tensor]:
        """Compute the results in PyTorch."""
        with torch.no_grad():
            results = self.module(*self.inputs.values())
        return list(results) if isinstance(results, tuple) else [results]

    def onnx_model(self, opset: int = 17) -> bytes:
        """Return the model as PyTorch exports it by tracing."""
        file: Any = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                self.module,
                tuple(self.inputs.values()),
                file,
                input_names=list(self.inputs),
                dynamic_axes={name: dict(dims) for name, dims in self.open_sizes.items()},
                opset_version=opset,
                do_constant_folding=False,
                dynamo=False,
            )
        return bytes(file.getvalue())


def architecture(
    module: nn.Module, *inputs: Tensor, opens: Sequence[Mapping[int, str]] = ({0: "batch"},)
) -> Architecture:
    """Return a network as it runs after training, with inputs x0, x1 and so on."""
    named = {f"x{at}": one for at, one in enumerate(inputs)}
    return Architecture(module.eval(), named, dict(zip(named, opens, strict=False)))


class Attention(nn.Module):
    """Heads of attention over the last two dimensions, to itself or to a context."""

    def __init__(self, width: int, heads: int, context: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(context or width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Any:
        source = x if context is None else context
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        kv = self.kv(source).unflatten(-1, (2, self.heads, -1))
        k, v = kv.select(-3, 0).transpose(-3, -2), kv.select(-3, 1).transpose(-3, -2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(-3, -2).flatten(-2))


class Block(nn.Module):
    """A block of a transformer, norms first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 16, 16)
        self.first = nn.Parameter(torch.randn(1, 1, 64))
        self.places = nn.Parameter(torch.randn(1, 17, 64))
        self.blocks = nn.Sequential(Block(64, 4), Block(64, 4))
        self.head = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.blocks(x)[:, 0])


class SwinBlock(nn.Module):
    """Attention within windows that are shifted, with a bias for each distance, and a merge."""

    def __init__(self, width: int = 32, heads: int = 2, window: int = 4, shift: int = 2) -> None:
        super().__init__()
        self.window, self.shift, self.heads = window, shift, heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.biases = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        steps = torch.arange(window)
        grid = torch.stack(torch.meshgrid(steps, steps, indexing="ij")).flatten(1)
        apart = (grid[:, :, None] - grid[:, None, :]) + window - 1
        self.register_buffer("distance", apart[0] * (2 * window - 1) + apart[1])
        self.merge = nn.Sequential(nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width))

    def mask(self, h: int, w: int) -> Tensor:
        rows, columns = (
            (torch.arange(size) >= size - self.window).float()
            + (torch.arange(size) >= size - self.shift).float()
            for size in (h, w)
        )
        image = (3 * rows[:, None] + columns).view(1, h, w, 1)
        flat = self.split(image).squeeze(-1)
        apart = flat[:, None, :] - flat[:, :, None]
        return apart.masked_fill(apart != 0, -100.0)[:, None]

    def split(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        size = self.window
        windows = x.view(b, h // size, size, w // size, size, c)
        return windows.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)

    def forward(self, x: Tensor) -> Any:
        b, h, w, c = x.shape
        y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2))
        windows = self.split(y)
        count = windows.shape[0]
        qkv = self.qkv(windows).view(count, -1, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q * (c // self.heads) ** -0.5 @ k.transpose(-2, -1)
        index: Any = self.distance
        scores = scores + self.biases[index.view(-1)].view(*index.shape, -1).permute(2, 0, 1)
        mask = self.mask(h, w)
        scores = scores.view(b, mask.shape[0], self.heads, *index.shape) + mask
        scores = scores.view(count, self.heads, *index.shape).softmax(-1)
        y = self.out((scores @ v).transpose(1, 2).reshape(windows.shape))
        size = self.window
        y = y.view(b, h // size, w // size, size, size, c).permute(0, 1, 3, 2, 4, 5)
        y = torch.roll(y.reshape(b, h, w, c), (self.shift, self.shift), (1, 2))
        x = x + y
        x = x + self.mlp(self.norm2(x))
        quarters = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.merge(torch.cat(quarters, -1))


def _conv(channels: int, out: int, size: int = 1, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, out, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(out),
        nn.SiLU(),
    )


class Detector(nn.Module):
    """What YOLO's newer versions have: splits, a pyramid of pools, two scales, boxes by softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 16, 3, 2), _conv(16, 32, 3, 2))
        self.split = _conv(32, 32)
        self.inner = nn.Sequential(_conv(16, 16, 3), _conv(16, 16, 3))
        self.joined = _conv(48, 32)
        self.down = _conv(32, 64, 3, 2)
        self.pools = nn.MaxPool2d(5, 1, 2)
        self.pooled = _conv(256, 64)
        self.up = nn.Upsample(scale_factor=2)
        self.high = _conv(96, 32, 3)
        self.boxes = nn.ModuleList([nn.Conv2d(32, 4 * 8, 1), nn.Conv2d(64, 4 * 8, 1)])
        self.classes = nn.ModuleList([nn.Conv2d(32, 5, 1), nn.Conv2d(64, 5, 1)])

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        first, second = self.split(x).chunk(2, 1)
        low = self.joined(torch.cat([first, second, second + self.inner(second)], 1))
        deep = [self.down(low)]
        for _ in range(3):
            deep.append(self.pools(deep[-1]))
        y = self.pooled(torch.cat(deep, 1))
        scales = [self.high(torch.cat([self.up(y), low], 1)), y]
        found, anchors, strides = [], [], []
        for at, scale in enumerate(scales):
            h, w = scale.shape[2:]
            raw = torch.cat([self.boxes[at](scale), self.classes[at](scale)], 1)
            found.append(raw.flatten(2))
            ys, xs = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            anchors.append(torch.stack([xs, ys], -1).view(-1, 2))
            strides.append(torch.full((h * w, 1), 4.0 * 2**at))
        both = torch.cat(found, 2)
        boxes, scores = both[:, :32], both[:, 32:]
        weights = boxes.view(boxes.shape[0], 4, 8, -1).softmax(2)
        apart = (weights * torch.arange(8.0).view(1, 1, 8, 1)).sum(2)
        places, steps = torch.cat(anchors).t()[None], torch.cat(strides).t()[None]
        begin, end = places - apart[:, :2], places + apart[:, 2:]
        centred = torch.cat([(begin + end) / 2, end - begin], 1) * steps
        best, kinds = scores.sigmoid().max(1)
        top, rows = best.topk(10)
        boxes = centred.gather(2, rows[:, None].expand(-1, 4, -1))
        return boxes, top, kinds.gather(1, rows)


class Residual(nn.Module):
    """A block of a diffusion network: norms of groups, and a step that is added."""

    def __init__(self, channels: int, out: int, step: int = 64) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.GroupNorm(8, channels), nn.SiLU())
        self.first = nn.Conv2d(channels, out, 3, padding=1)
        self.step = nn.Linear(step, out)
        self.after = nn.Sequential(
            nn.GroupNorm(8, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1)
        )
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x: Tensor, step: Tensor) -> Any:
        y = self.first(self.before(x)) + self.step(F.silu(step))[:, :, None, None]
        return self.skip(x) + self.after(y)


class DiffusionNetwork(nn.Module):
    """A U-Net with attention to itself and to a context, as diffusion models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
        self.first = nn.Conv2d(4, 16, 3, padding=1)
        self.down1, self.shrink = Residual(16, 16), nn.Conv2d(16, 16, 3, 2, 1)
        self.down2 = Residual(16, 32)
        self.norm, self.enter, self.leave = (
            *(nn.GroupNorm(8, 32), nn.Conv2d(32, 32, 1), nn.Conv2d(32, 32, 1)),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(3))
        self.own, self.cross = Attention(32, 2), Attention(32, 2, 24)
        self.gate, self.out = nn.Linear(32, 128), nn.Linear(64, 32)
        self.up1, self.grow = Residual(48, 32), nn.Conv2d(32, 32, 3, padding=1)
        self.up2 = Residual(48, 16)
        self.last = nn.Sequential(nn.GroupNorm(8, 16), nn.SiLU(), nn.Conv2d(16, 4, 3, padding=1))

    def forward(self, x: Tensor, step: Tensor, context: Tensor) -> Any:
        rates = torch.exp(-math.log(10000) * torch.arange(16) / 16)
        angles = step[:, None].float() * rates[None]
        step = self.steps(torch.cat([angles.cos(), angles.sin()], -1))
        first = self.down1(self.first(x), step)
        small = self.shrink(first)
        y = self.down2(small, step)
        b, c, h, w = y.shape
        z = self.enter(self.norm(y)).permute(0, 2, 3, 1).reshape(b, h * w, c)
        z = z + self.own(self.norms[0](z))
        z = z + self.cross(self.norms[1](z), context)
        values, gates = self.gate(self.norms[2](z)).chunk(2, -1)
        z = z + self.out(values * F.gelu(gates))
        y = y + self.leave(z.reshape(b, h, w, c).permute(0, 3, 1, 2))
        y = self.up1(torch.cat([y, small], 1), step)
        y = self.grow(F.interpolate(y, scale_factor=2.0, mode="nearest"))
        return self.last(self.up2(torch.cat([y, first], 1), step))


class SpeechEncoder(nn.Module):
    """An encoder of Whisper's kind: two convolutions over time, then a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(20, 32, 3, 1, 1), nn.Conv1d(32, 32, 3, 2, 1)
        self.register_buffer("places", torch.randn(24, 32))
        self.blocks, self.norm = nn.Sequential(Block(32, 4), Block(32, 4)), nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Any:
        y = F.gelu(self.second(F.gelu(self.first(x)))).permute(0, 2, 1)
        places: Any = self.places
        return self.norm(self.blocks(y + places[: y.shape[1]]))


class Tagger(nn.Module):
    """Words to kinds of words, by two layers of LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 12)
        self.lstm = nn.LSTM(12, 16, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 7)

    def forward(self, words: Tensor) -> Any:
        y, _ = self.lstm(self.words(words))
        return self.head(y).log_softmax(-1)


class CharacterReader(nn.Module):
    """A text recogniser: convolutions, then GRUs along the width."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(_conv(1, 8, 3, 2), _conv(8, 16, 3, 2), nn.MaxPool2d((2, 1)))
        self.gru, self.rnn = nn.GRU(32, 16, bidirectional=True), nn.RNN(32, 16)
        self.head = nn.Linear(16, 11)

    def forward(self, x: Tensor) -> Any:
        y = self.image(x).flatten(1, 2).permute(2, 0, 1)
        return self.head(self.rnn(self.gru(y)[0])[0])


class TextEncoder(nn.Module):
    """BERT's embeddings and mask, CLIP's choice of the last word."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(40, 32), nn.Embedding(16, 32)
        self.norm = nn.LayerNorm(32)
        self.blocks = nn.ModuleList([Block(32, 4), Block(32, 4)])
        self.pool = nn.Linear(32, 32)

    def forward(self, words: Tensor, mask: Tensor) -> Any:
        b, length = words.shape
        places = torch.arange(length).unsqueeze(0).expand(b, -1)
        x = self.norm(self.words(words) + self.places(places))
        wide = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        later = torch.full((length, length), float("-inf")).triu(1)
        for block in self.blocks:
            x = block(x, wide + later)
        last = x[torch.arange(b), words.argmax(-1)]
        return torch.tanh(self.pool(x[:, 0])), F.normalize(last, dim=-1)


class Segmenter(nn.Module):
    """Dilated branches beside a pooled one, resized to the image, and the best class."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 16, 3, 2), _conv(16, 24, 3, 2))
        self.branches = nn.ModuleList(
            nn.Conv2d(24, 16, 3, padding=rate, dilation=rate) for rate in (1, 2, 4)
        )
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 16, 1), nn.ReLU())
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(64, 64, 1), nn.Sigmoid())
        self.head = nn.Conv2d(64, 6, 1)

    def forward(self, x: Tensor) -> Any:
        y = self.stem(x)
        pooled = F.interpolate(self.pooled(y), size=y.shape[2:], mode="bilinear")
        y = torch.cat([*(branch(y).relu() for branch in self.branches), pooled], 1)
        y = self.head(y * self.squeeze(y))
        scores = F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)
        return scores, scores.argmax(1)


class Upscaler(nn.Module):
    """A super-resolution network: blocks of channels become blocks of pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 16, 5, padding=2), nn.PReLU(16), nn.Conv2d(16, 12, 3, padding=1)),
            nn.PixelShuffle(2),
        )
        self.transposed = nn.ConvTranspose2d(3, 3, 4, 2, 1)

    def forward(self, x: Tensor) -> Any:
        padded = F.pad(x, (1, 1, 1, 1), mode="reflect")
        large = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        y = self.body(padded)[:, :, 2:-2, 2:-2] + large
        return y.clamp(0, 1), self.transposed(x)


def _words(*shape: int) -> Tensor:
    return torch.randint(0, 40, shape)


#: Each architecture by name. Weights and inputs are drawn anew, with the seed of the caller.
ARCHITECTURES: Mapping[str, Callable[[], Architecture]] = {
    "vision-transformer": lambda: architecture(VisionTransformer(), torch.randn(2, 3, 64, 64)),
    "swin-block": lambda: architecture(SwinBlock(), torch.randn(2, 8, 8, 32), opens=()),
    "detector": lambda: architecture(
        Detector(), torch.randn(2, 3, 64, 96), opens=({0: "batch", 2: "height", 3: "width"},)
    ),
    "diffusion-network": lambda: architecture(
        *(DiffusionNetwork(), torch.randn(2, 4, 8, 8), torch.tensor([3, 700])),
        torch.randn(2, 6, 24),
        opens=({0: "batch", 2: "height", 3: "width"}, {0: "batch"}, {0: "batch", 1: "words"}),
    ),
    "speech-encoder": lambda: architecture(SpeechEncoder(), torch.randn(2, 20, 40)),
    "tagger": lambda: architecture(Tagger(), _words(2, 9), opens=({0: "batch", 1: "words"},)),
    "character-reader": lambda: architecture(CharacterReader(), torch.randn(2, 1, 16, 24)),
    "text-encoder": lambda: architecture(
        *(TextEncoder(), _words(2, 7), torch.tensor([[1] * 7, [1] * 4 + [0] * 3])),
        opens=({0: "batch", 1: "words"}, {0: "batch", 1: "words"}),
    ),
    "segmenter": lambda: architecture(
        Segmenter(), torch.randn(1, 3, 40, 56), opens=({2: "height", 3: "width"},)
    ),
    "upscaler": lambda: architecture(Upscaler(), torch.rand(2, 3, 12, 16)),
}
