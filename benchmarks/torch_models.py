"""Whole models in PyTorch: its own eager and compiled forms against convfind's, interleaved.

    python benchmarks/torch_models.py inference resnet50 vgg16 mobilenet_v2 -n 4 --find-budget 300
    python benchmarks/torch_models.py training resnet18 unet -n 8 --find-budget 300

Peers: eager in both memory formats, and for inference PyTorch's compiler with freezing. Convfind:
``torch.compile(backend="convfind")`` for inference, ``convfind_torch.convert`` for training, each
in both memory formats. Medians in ms, model by model; what is measured is written at once, also
after an interrupt. Finds take most of a first run: each form of a model gets a budget for them, and
what was found is in the database of the next run.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import nn

import convfind_torch

Runs = dict[str, Callable[[], Any]]
FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


def main() -> None:
    """Time models, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kind", choices=["inference", "training"])
    parser.add_argument("models", nargs="+", choices=sorted(MODELS))
    parser.add_argument("-n", "--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=224, help="sides of the images")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=120, help="of a model's rounds, at most")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--find-budget", type=float, default=None, help="seconds for the finds of a form of a model"
    )
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for name in given.models:
        torch.manual_seed(0)
        model = MODELS[name]().to(given.device)
        x = torch.randn(given.batch, 3, given.size, given.size, device=given.device)
        make = _inference if given.kind == "inference" else _training
        times = _interleaved(make(model, x, given), given, name)
        row = {key: round(median(samples), 2) for key, samples in times.items() if samples}
        if given.json:
            rounds = min(map(len, times.values()))
            facts = {"model": name, "kind": given.kind, "batch": given.batch, "rounds": rounds}
            print(json.dumps({**facts, **row}), flush=True)
            continue
        peers = [ms for key, ms in row.items() if not key.startswith("convfind")]
        ours = [ms for key, ms in row.items() if key.startswith("convfind")]
        print(name, given.kind, f"batch {given.batch}:", min(peers) / min(ours), "times as fast")
        for key, ms in row.items():
            print(f"  {key:24} {ms:9.2f} ms", flush=True)


def _inference(model: nn.Module, x: torch.Tensor, given: argparse.Namespace) -> Runs:
    import torch._inductor.config as inductor

    model = model.eval()
    runs: Runs = {}
    find = {"time_budget": given.find_budget}  # of a plan: for the whole network
    for word in given.formats:
        layout = FORMATS[word]
        own, image = (
            copy.deepcopy(model).to(memory_format=layout),
            x.contiguous(memory_format=layout),
        )
        runs[f"eager {word}"] = _call(own, image)
        compiled = torch.compile(copy.deepcopy(own), backend="convfind", options=find)
        runs[f"convfind {word}"] = _call(compiled, image)
    with inductor.patch(freezing=True), torch.no_grad():
        frozen = torch.compile(copy.deepcopy(model))
        frozen(x)
    runs["compiled, frozen"] = _call(frozen, x)
    return runs


def _call(model: Callable[..., Any], x: torch.Tensor) -> Callable[[], Any]:
    def run() -> Any:
        with torch.no_grad():
            return model(x)

    return run


def _training(model: nn.Module, x: torch.Tensor, given: argparse.Namespace) -> Runs:
    runs: Runs = {}
    convolutions = sum(isinstance(one, nn.modules.conv._ConvNd) for one in model.modules())
    each = given.find_budget and given.find_budget / (3 * convolutions)
    for word in given.formats:
        layout = FORMATS[word]
        image = x.contiguous(memory_format=layout)
        for who in ("eager", "convfind"):
            own = copy.deepcopy(model).train().to(memory_format=layout)
            if who == "convfind":
                convfind_torch.convert(own, time_budget=each)
            runs[f"{who} {word}"] = _step(own, image)
    return runs


def _step(model: nn.Module, x: torch.Tensor) -> Callable[[], Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def run() -> Any:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return run


def _interleaved(runs: Runs, given: argparse.Namespace, model: str) -> dict[str, list[float]]:
    """Return milliseconds of each; fewer where time or the user's patience ends."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    try:
        for _ in range(2):  # finds, compilers, caches
            for name, run in runs.items():
                seconds = _timed(run, given.device) / 1e3
                print(f"{model}, {name}: warm-up took {seconds:.1f} s", file=sys.stderr, flush=True)
        began = time.perf_counter()
        for _ in range(given.rounds):
            for name, run in runs.items():
                times[name].append(_timed(run, given.device))
            if time.perf_counter() - began > given.seconds:
                break
    except KeyboardInterrupt:
        print(f"{model}: interrupted", file=sys.stderr)
    return times


def _timed(run: Callable[[], Any], device: str) -> float:
    _wait(device)
    began = time.perf_counter()
    run()
    _wait(device)
    return (time.perf_counter() - began) * 1e3


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def _convolution(channels: int, out: int, size: int, stride: int = 1, groups: int = 1) -> list[Any]:
    pad = size // 2
    convolution = nn.Conv2d(channels, out, size, stride, pad, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(out)]


class Residual(nn.Module):
    """A block with a shortcut; a projection where sizes differ."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None, activation: bool) -> None:
        super().__init__()
        self.body, self.shortcut, self.activation = body, shortcut, activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the shortcut."""
        y = self.body(x) + (x if self.shortcut is None else self.shortcut(x))
        return torch.relu(y) if self.activation else y


def _resnet(blocks: tuple[int, ...], bottleneck: bool) -> nn.Module:
    layers = [*_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        out = width * (4 if bottleneck else 1)
        for block in range(count):
            stride = 2 if stage and not block else 1
            if bottleneck:
                body = [*_convolution(channels, width, 1), nn.ReLU()]
                body += [*_convolution(width, width, 3, stride), nn.ReLU()]
                body += _convolution(width, out, 1)
            else:
                body = [*_convolution(channels, out, 3, stride), nn.ReLU()]
                body += _convolution(out, out, 3)
            differs = stride > 1 or channels != out
            shortcut = nn.Sequential(*_convolution(channels, out, 1, stride)) if differs else None
            layers.append(Residual(nn.Sequential(*body), shortcut, True))
            channels = out
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]
    return nn.Sequential(*layers)


def _vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten()]
    layers += [nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


def _mobilenet_v2() -> nn.Module:
    layers = [*_convolution(3, 32, 3, 2), nn.ReLU6()]
    channels = 32
    for grow, out, count, stride in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for block in range(count):
            step, width = 1 if block else stride, channels * grow
            body = [*_convolution(channels, width, 1), nn.ReLU6()] if grow > 1 else []
            body += [*_convolution(width, width, 3, step, width), nn.ReLU6()]
            inner = nn.Sequential(*body, *_convolution(width, out, 1))
            layers.append(Residual(inner, None, False) if step == 1 and channels == out else inner)
            channels = out
    layers += [*_convolution(320, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, 1000))


class UNet(nn.Module):
    """A small U-Net: four levels, transposed convolutions upwards."""

    def __init__(self, width: int = 16, levels: int = 4) -> None:
        super().__init__()
        sizes = [width << level for level in range(levels)]
        self.down = nn.ModuleList(
            self._block(before, size) for before, size in zip([3, *sizes], sizes, strict=False)
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * size, size, 2, stride=2) for size in sizes[:-1]
        )
        self.joined = nn.ModuleList(self._block(2 * size, size) for size in sizes[:-1])
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go down, and up again beside what was kept."""
        kept = []
        for block in self.down[:-1]:
            kept.append(x := block(x))
            x = nn.functional.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, joined, beside in reversed(list(zip(self.up, self.joined, kept, strict=True))):
            x = joined(torch.cat([beside, up(x)], 1))
        return self.last(x)

    @staticmethod
    def _block(channels: int, out: int) -> nn.Module:
        body = [*_convolution(channels, out, 3), nn.ReLU(), *_convolution(out, out, 3), nn.ReLU()]
        return nn.Sequential(*body)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mobilenet_v2": _mobilenet_v2,
    "resnet18": lambda: _resnet((2, 2, 2, 2), bottleneck=False),
    "resnet50": lambda: _resnet((3, 4, 6, 3), bottleneck=True),
    "unet": UNet,
    "vgg16": _vgg16,
}

if __name__ == "__main__":
    main()
