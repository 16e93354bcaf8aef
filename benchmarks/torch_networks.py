"""Networks for diffusion, language and speech, and timm's, by `torch.compile`, in turns.

    python benchmarks/torch_networks.py diffusion:2 encoder:1 llama:1 tokens:8 whisper:1 \\
        timm/resnet50:1 --device cuda --dtype float16

Convfind's backend against PyTorch's compiler, which on a GPU replays CUDA graphs. Single calls with
their end, medians, and calls in a row; relative norms of errors against float32, eager's beside
them; what compiling took. Random weights; timm is only needed for its models.
"""

from __future__ import annotations

import copy
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click
import torch
from torch import Tensor, nn

import convfind_torch
from models.attending import DiffusionUNet, Llama, WhisperEncoder, encoder

Run = Callable[[], Tensor]
#: Calls in a row, as a server makes them.
_ROW = 20


@dataclass(frozen=True, slots=True)
class Row:
    """A network: seconds of compiling, ms of a call and of one of many, and errors."""

    network: str
    compile_s: float
    peer_compile_s: float
    convfind_ms: float
    peer_ms: float
    convfind_row_ms: float
    peer_row_ms: float
    error: float
    eager_error: float

    @property
    def gains(self) -> tuple[float, float]:
        """How many times as fast convfind is, in single calls and in a row."""
        return self.peer_ms / self.convfind_ms, self.peer_row_ms / self.convfind_row_ms


def network(name: str, batch: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a network and what it is called with."""
    torch.manual_seed(0)
    match name:
        case "diffusion":
            sizes = (batch, 4, 64, 64), (batch, 320), (batch, 77, 768)
            return DiffusionUNet(), tuple(map(torch.randn, sizes))
        case "encoder":
            return encoder(), (torch.randn(batch, 384, 768),)
        case "llama" | "tokens":  # a text of 512 tokens, and one token
            return Llama(), (torch.randint(0, 32000, (batch, 512 if name == "llama" else 1)),)
        case "whisper":
            return WhisperEncoder(), (torch.randn(batch, 80, 3000),)
    kind, _, model = name.partition("/")
    if kind != "timm" or not model:
        known = "diffusion, encoder, llama, tokens, whisper, timm/MODEL"
        raise click.UsageError(f"no network {name!r}; there are {known}")
    import timm

    return timm.create_model(model), (torch.randn(batch, 3, 224, 224),)


@click.command()
@click.argument("networks", nargs=-1, required=True, metavar="NETWORK:BATCH..")
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]))
@click.option("--dtype", default="float32", type=click.Choice(["float32", "float16", "bfloat16"]))
@click.option("--budget", type=float, help="Seconds for the finds of a network.  [no limit]")
@click.option("--rounds", default=22, help="Of single calls.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each network.")
@click.option("--report", is_flag=True, help="Say where graphs ran.")
def main(
    networks: tuple[str, ...],
    device: str,
    dtype: str,
    budget: float | None,
    rounds: int,
    as_json: bool,
    report: bool,
) -> None:
    """Time networks, print a line for each."""
    torch.backends.cudnn.benchmark = True
    for spec in networks:
        name, _, batch = spec.partition(":")
        made = network(name, int(batch or 1))
        with torch.no_grad():
            row = _measured(spec, *made, device, getattr(torch, dtype), budget, rounds)
        if as_json:
            click.echo(json.dumps({"device": device, "dtype": dtype, **asdict(row)}))
        else:
            alone, in_a_row = row.gains
            click.echo(f"{row}\n  {alone:.2f} times as fast, in a row {in_a_row:.2f}")
        if report:
            click.echo(str(convfind_torch.report()), err=True)
        torch._dynamo.reset()


def _measured(
    spec: str,
    wide: nn.Module,
    inputs: tuple[Tensor, ...],
    device: str,
    dtype: torch.dtype,
    budget: float | None,
    rounds: int,
) -> Row:
    wide, inputs = wide.eval().to(device), tuple(one.to(device) for one in inputs)
    model, given = copy.deepcopy(wide).to(dtype), tuple(_as(one, dtype) for one in inputs)
    if given[0].dim() == 4:
        model = model.to(memory_format=torch.channels_last)
    compiled: Any = torch.compile
    ours = compiled(model, backend="convfind", options={"time_budget": budget})
    peer = compiled(model, mode="reduce-overhead" if device == "cuda" else "default")
    runs: dict[str, Run] = {"convfind": lambda: ours(*given), "peer": lambda: peer(*given)}
    seconds = {key: _seconds(run, device, 3) for key, run in runs.items()}
    right = wide(*inputs)
    errors = [_error(one(), right) for one in (runs["convfind"], lambda: model(*given))]
    alone: dict[str, list[float]] = {key: [] for key in runs}
    for _ in range(rounds):
        for key, run in runs.items():
            alone[key].append(1e3 * _seconds(run, device))
    row = {key: 1e3 * _seconds(run, device, _ROW) / _ROW for key, run in runs.items()}
    return Row(
        *(spec, seconds["convfind"], seconds["peer"]),
        *(statistics.median(alone[key]) for key in ("convfind", "peer")),
        *(row[key] for key in ("convfind", "peer")),
        *errors,
    )


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    x = x.to(dtype) if x.is_floating_point() else x
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def _seconds(run: Run, device: str, count: int = 1) -> float:
    """Return the seconds that some calls in a row take, with their end."""
    _wait(device)
    began = time.perf_counter()
    for _ in range(count):
        run()
    _wait(device)
    return time.perf_counter() - began


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _error(y: Tensor, right: Tensor) -> float:
    return float((y.float() - right).norm() / right.norm())


if __name__ == "__main__":
    main()
