"""Whole models in PyTorch: its own eager and compiled forms against convfind's, interleaved.

    python benchmarks/torch_models.py inference resnet50 vgg16 mobilenet_v2 -n 4 --find-budget 300
    python benchmarks/torch_models.py training resnet18 unet -n 8 --find-budget 300
    python benchmarks/torch_models.py table --device cuda -n 64 --minutes 8 --json

Peers: eager in both memory formats, and PyTorch's compiler, for inference with freezing. Convfind:
``torch.compile(backend="convfind")`` for inference, ``convfind_torch.convert`` for training, on a
GPU also the compiler, which replays CUDA graphs in one of its forms, as PyTorch's does, in both
memory formats on a CPU and channels last on a GPU. Medians in ms, model by model; what is measured
is written at once, also after an interrupt. Finds take most of a first run: each form of a model
gets a budget for them, and what was found is in the database of the next form and the next run.
``table`` is the rows that a GPU is judged by, as many as the minutes allow.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import nn

import convfind_torch

Runs = dict[str, Callable[[], Any]]
FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}
PRECISIONS = ("float32", "tf32", "float16")


@dataclass(frozen=True, slots=True)
class Row:
    """A model, what is done with it, and how exactly."""

    kind: str
    model: str
    precision: str = "float32"

    def exactly(self, device: str) -> AbstractContextManager[Any]:
        """Return what surrounds each run; sets what is no context."""
        allowed = self.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = allowed
        if self.precision != "float16":
            return nullcontext()
        narrow = torch.float16 if device == "cuda" else torch.bfloat16
        around: AbstractContextManager[Any] = torch.autocast(device, narrow)
        return around


#: The figures by which a GPU is judged, most important first.
TABLE = (
    *(Row("inference", name) for name in ("mobilenet_v2", "resnet50", "vgg16")),
    Row("inference", "resnet50", "tf32"),
    Row("inference", "resnet50", "float16"),
    Row("training", "resnet50"),
    Row("training", "resnet50", "tf32"),
    Row("training", "resnet50", "float16"),
    Row("training", "vgg16"),
)


def main() -> None:
    """Time models, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kind", choices=["inference", "training", "table"])
    parser.add_argument("models", nargs="*", help=", ".join(sorted(MODELS)))
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=["float32"])
    parser.add_argument("-n", "--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=224, help="sides of the images")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=120, help="of a model's rounds, at most")
    parser.add_argument("--first", type=int, default=0, help="row of the table to begin with")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no row after so many")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--find-budget", type=float, default=None, help="seconds for the finds of a form of a model"
    )
    parser.add_argument("--mode", help="of the finds; FAST measures nothing: models choose")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, help="of convfind's forms")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--report", action="store_true", help="say where convolutions ran")
    given = parser.parse_args()
    if not given.models and given.kind != "table":
        parser.error("name at least one model")
    if unknown := set(given.models) - set(MODELS):
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(sorted(MODELS))}")
    torch.set_num_threads(given.threads)
    torch.backends.cudnn.benchmark = True
    rows = TABLE[given.first :]
    if given.kind != "table":
        rows = tuple(Row(given.kind, one, how) for how in given.precision for one in given.models)
    began = time.monotonic()
    for row in rows:
        if time.monotonic() - began > given.minutes * 60:
            print(f"no time for {row}", file=sys.stderr)
            break
        try:
            _print(row, _measured(row, given), given)
        except Exception as error:  # the other rows are worth having
            print(f"{row}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def _measured(row: Row, given: argparse.Namespace) -> dict[str, list[float]]:
    torch.manual_seed(0)
    model = MODELS[row.model]().to(given.device)
    x = torch.randn(given.batch, 3, given.size, given.size, device=given.device)
    make = _inference if row.kind == "inference" else _training
    around = row.exactly(given.device) if row.kind == "inference" else nullcontext()
    with around:
        runs = make(model, x, row, given)
        times = _interleaved(runs, given, row)
    if given.report:  # while the models are there
        print(convfind_torch.report(), file=sys.stderr, flush=True)
    return times


def _print(row: Row, times: dict[str, list[float]], given: argparse.Namespace) -> None:
    medians = {key: round(median(samples), 3) for key, samples in times.items() if samples}
    peers = [ms for key, ms in medians.items() if not key.startswith("convfind")]
    ours = [ms for key, ms in medians.items() if key.startswith("convfind")]
    speedup = round(min(peers) / min(ours), 3) if peers and ours else None
    if given.json:
        facts: dict[str, Any] = {"model": row.model, "kind": row.kind, "precision": row.precision}
        facts |= {"device": _device(given.device), "batch": given.batch, "speedup": speedup}
        print(json.dumps({**facts, "rounds": min(map(len, times.values())), **medians}), flush=True)
        return
    print(f"{row.model} {row.kind} {row.precision}, batch {given.batch}: {speedup} times as fast")
    for key, ms in medians.items():
        print(f"  {key:24} {ms:9.2f} ms", flush=True)


def _device(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def _formats(given: argparse.Namespace) -> list[str]:
    """Return the memory formats of convfind's forms; a GPU's matrix units want channels last."""
    return list(given.formats or (FORMATS if given.device == "cpu" else ["NHWC"]))


def _inference(model: nn.Module, x: torch.Tensor, row: Row, given: argparse.Namespace) -> Runs:
    import torch._inductor.config as inductor

    model = model.eval()
    runs: Runs = {}
    # The budget is that of the whole network.
    find = {"time_budget": given.find_budget, **({"mode": given.mode} if given.mode else {})}
    for word, layout in FORMATS.items():
        own, image = (
            copy.deepcopy(model).to(memory_format=layout),
            x.contiguous(memory_format=layout),
        )
        runs[f"eager {word}"] = _call(own, image)
        if word in _formats(given):
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


def _training(model: nn.Module, x: torch.Tensor, row: Row, given: argparse.Namespace) -> Runs:
    runs: Runs = {}
    compiled: Any
    convolutions = sum(isinstance(one, nn.modules.conv._ConvNd) for one in model.modules())
    each = given.find_budget and given.find_budget / (3 * convolutions)
    for word, layout in FORMATS.items():
        image = x.contiguous(memory_format=layout)
        own = copy.deepcopy(model).train().to(memory_format=layout)
        runs[f"eager {word}"] = _step(own, image, row, given)
        if word in _formats(given):
            with row.exactly(given.device):
                converted = convfind_torch.convert(
                    copy.deepcopy(own), given.mode, example_inputs=image, time_budget=each
                )
            runs[f"convfind {word}"] = _step(converted, image, row, given)
            if given.device == "cuda":
                find = {"time_budget": each, **({"mode": given.mode} if given.mode else {})}
                for name, graphs in (("compiled", False), ("replayed", True)):
                    options = {**find, "cuda_graphs": graphs}
                    compiled = torch.compile(
                        copy.deepcopy(own), backend="convfind", options=options
                    )
                    runs[f"convfind {name} {word}"] = _step(compiled, image, row, given)
    if given.device == "cuda":
        for name, mode in (("compiled", "default"), ("replayed", "reduce-overhead")):
            compiled = torch.compile(copy.deepcopy(model).train(), mode=mode)
            runs[name] = _step(compiled, x, row, given)
    return runs


def _step(
    model: nn.Module, x: torch.Tensor, row: Row, given: argparse.Namespace
) -> Callable[[], Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def run() -> Any:
        optimizer.zero_grad()
        with row.exactly(given.device):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()

    return run


def _interleaved(runs: Runs, given: argparse.Namespace, row: Row) -> dict[str, list[float]]:
    """Return milliseconds of each; fewer where time or the user's patience ends."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    try:
        for _ in range(3):  # finds, compilers, caches, recordings of graphs
            for name, run in runs.items():
                seconds = _timed(run, given.device) / 1e3
                print(f"{row}, {name}: warm-up took {seconds:.1f} s", file=sys.stderr, flush=True)
        began = time.perf_counter()
        for _ in range(given.rounds):
            for name, run in runs.items():
                times[name].append(_timed(run, given.device))
            if time.perf_counter() - began > given.seconds:
                break
    except KeyboardInterrupt:
        print(f"{row}: interrupted", file=sys.stderr)
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
