"""Networks for diffusion, language and speech as PyTorch's modules, with random weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _heads(x: Tensor, depth: int) -> Tensor:
    """Return batch, heads, sequence, depth of (batch, sequence, heads * depth)."""
    return x.view(*x.shape[:2], -1, depth).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class _Projections(nn.Module):
    """Attention with projections of their own for queries, keys and values."""

    def __init__(self, width: int, heads: int, context: int | None = None, bias: str = "o") -> None:
        super().__init__()
        self.depth = width // heads
        seen = width if context is None else context
        self.q, self.k, self.v, self.o = (
            nn.Linear(size, width, bias=name in bias)
            for name, size in zip("qkvo", (width, seen, seen, width), strict=True)
        )

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        q, k, v = self.q(x), self.k(context), self.v(context)
        q, k, v = (_heads(one, self.depth) for one in (q, k, v))
        y: Tensor = self.o(_joined(F.scaled_dot_product_attention(q, k, v)))
        return y


class _Transformer(nn.Module):
    """A block of Stable Diffusion's U-Net: it sees its own image and a text."""

    def __init__(self, width: int, context: int = 768, heads: int = 8) -> None:
        super().__init__()
        self.norm, self.into = nn.GroupNorm(32, width), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = _Projections(width, heads)
        self.text = _Projections(width, heads, context)
        self.gated, self.back = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        y = self.into(self.norm(x)).flatten(2).transpose(1, 2)
        seen = self.norms[0](y)
        y = y + self.own(seen, seen)
        y = y + self.text(self.norms[1](y), text)
        value, gate = self.gated(self.norms[2](y)).chunk(2, -1)
        y = y + self.back(value * F.gelu(gate))
        z: Tensor = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return z


class _Residual(nn.Module):
    """Two convolutions behind norms, and what time adds between them."""

    def __init__(self, channels: int, out: int, time: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(32, channels), nn.GroupNorm(32, out)
        self.into, self.out = (nn.Conv2d(one, out, 3, padding=1) for one in (channels, out))
        self.time = nn.Linear(time, out)
        self.short = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.into(F.silu(self.first(x))) + self.time(F.silu(time))[:, :, None, None]
        z: Tensor = self.short(x) + self.out(F.silu(self.second(y)))
        return z


class _Stage(nn.Module):
    """A residual block and a transformer."""

    def __init__(self, channels: int, out: int, time: int) -> None:
        super().__init__()
        self.residual, self.transformer = _Residual(channels, out, time), _Transformer(out)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        y: Tensor = self.transformer(self.residual(x, time), text)
        return y


class DiffusionUNet(nn.Module):
    """A network of the form of Stable Diffusion's, whose images are halved twice."""

    def __init__(self, widths: tuple[int, ...] = (320, 640, 1280)) -> None:
        super().__init__()
        first, time = widths[0], 4 * widths[0]
        self.time = nn.Sequential(nn.Linear(first, time), nn.SiLU(), nn.Linear(time, time))
        self.into = nn.Conv2d(4, first, 3, padding=1)
        self.down, self.up, last, skipped = nn.ModuleList(), nn.ModuleList(), first, [first]
        for number, width in enumerate(widths):
            for _ in range(2):
                self.down.append(_Stage(last, width, time))
                last = width
                skipped.append(width)
            if number + 1 < len(widths):
                self.down.append(nn.Conv2d(width, width, 3, 2, 1))
                skipped.append(width)
        self.middle, self.last = _Stage(last, last, time), _Residual(last, last, time)
        for number, width in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(_Stage(last + skipped.pop(), width, time))
                last = width
            if number:
                self.up.append(nn.Conv2d(width, width, 3, padding=1))
        self.out = nn.Sequential(nn.GroupNorm(32, last), nn.SiLU(), nn.Conv2d(last, 4, 3, 1, 1))

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        """Return the noise in images (batch, 4, height, width), given time and a text."""
        time, x = self.time(time), self.into(x)
        kept = [x]
        for one in self.down:
            x = one(x, time, text) if isinstance(one, _Stage) else one(x)
            kept.append(x)
        x = self.last(self.middle(x, time, text), time)
        for one in self.up:
            if isinstance(one, _Stage):
                x = one(torch.cat([x, kept.pop()], 1), time, text)
            else:
                x = one(F.interpolate(x, scale_factor=2.0))
        y: Tensor = self.out(x)
        return y


def encoder(width: int = 768, layers: int = 12) -> nn.Module:
    """Return PyTorch's own encoder, of BERT's sizes."""
    layer = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, activation="gelu", batch_first=True
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


class _RMSNorm(nn.Module):
    """The norm as Llama spells it, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        norm = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return norm.to(x.dtype) * self.weight


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class _LlamaLayer(nn.Module):
    def __init__(self, width: int, heads: int, shared: int, hidden: int) -> None:
        super().__init__()
        self.depth = width // heads
        self.norms = nn.ModuleList(_RMSNorm(width) for _ in range(2))
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, shared * self.depth, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = self.norms[0](x)
        q, k, v = (_heads(one(y), self.depth) for one in (self.q, self.k, self.v))
        q, k = _turned(q, cos, sin), _turned(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(_joined(y))
        y = self.norms[1](x)
        z: Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return z


class Llama(nn.Module):
    """A network of Llama's kind; returns what comes after the last token."""

    cos: Tensor
    sin: Tensor

    def __init__(self, layers: int = 8, width: int = 2048, tokens: int = 32000) -> None:
        super().__init__()
        depth = 128
        heads = width // depth
        self.words = nn.Embedding(tokens, width)
        sizes = (width, heads, max(heads // 4, 1), 11 * width // 4)
        self.layers = nn.ModuleList(_LlamaLayer(*sizes) for _ in range(layers))
        self.norm, self.out = _RMSNorm(width), nn.Linear(width, tokens, bias=False)
        angles = torch.arange(2048)[:, None] / 10000 ** (torch.arange(0, depth, 2) / depth)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, words: Tensor) -> Tensor:
        """Return scores of tokens (batch, tokens) for numbers of tokens (batch, length)."""
        x, length = self.words(words), words.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        y: Tensor = self.out(self.norm(x)[:, -1])
        return y


class WhisperEncoder(nn.Module):
    """The encoder of Whisper's kind, of its base model's sizes."""

    def __init__(self, width: int = 512, layers: int = 6) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, 2, 1)
        self.places = nn.Parameter(0.1 * torch.randn(1500, width))
        self.attention = nn.ModuleList(
            _Projections(width, width // 64, bias="qvo") for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.hidden = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return what frames (batch, 80, length) are encoded as, of half the length."""
        x = F.gelu(self.second(F.gelu(self.first(x)))).transpose(1, 2)
        x = x + self.places[: x.shape[1]]
        for number, (attention, hidden) in enumerate(zip(self.attention, self.hidden, strict=True)):
            seen = self.norms[2 * number](x)
            x = x + attention(seen, seen)
            x = x + hidden(self.norms[2 * number + 1](x))
        y: Tensor = self.norms[-1](x)
        return y
