"""Training: perceptrons for each direction, from measured times. Needs PyTorch.

A network predicts the logarithm of each solver's time. Its loss has four parts: the error of the
measured times; the cross-entropy of choosing among the measured solvers, whose targets are shares
that fall with the twentieth power of the time; the expected regret, which is the log slowdown of a
choice by these odds; and, for solvers without a time, by how much they are predicted to be faster
than a little behind the best: they cannot run the problem, or were slower than what was recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convfind.heuristics.features import SIZES, feature_columns
from convfind.heuristics.model_file import Model, Training
from convfind.heuristics.network import Domain, Floats, Network, log_work
from convfind.types import Direction
from convfind_finddb_tools.heuristics.dataset import Dataset
from convfind_finddb_tools.heuristics.evaluation import evaluate
from convfind_finddb_tools.heuristics.split import Split, held_out

_CONTRAST = 20.0  # power of the time in the targets
_SHARPNESS = 8.0  # log times to odds while training
_FAR = 4.0  # log times further than this from the best have no share
_NEVER = -1e9
_REGRET = 2.0  # weight of the expected regret
_MOST_REGRET = 2.0  # log times further than this from the best are no worse
_BEHIND = 0.2  # log time by which a solver without a time should be behind the best
_CENSORED = 0.1  # weight of that
_FEWEST_STEPS = 40  # of an epoch with little data

_RANK = SIZES.index("spatial_rank")

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to train; the defaults are what worked best on MIOpen's databases."""

    seed: int = 0
    hidden: tuple[int, ...] = (240, 160)  # units of each layer, at most
    units_per_solver: int = 28  # and at most so many for each solver
    apart: int = 4000  # problems of one spatial rank that get a network of their own
    epochs: int = 50
    batch: int = 1024
    rate: float = 4e-3
    decay: float = 0.05
    dropout: float = 0.08
    calibration: float = 0.03  # share of the families by which the confidence is calibrated
    held_out: float = 0.2  # share that is not trained on
    split: Split = "family"


def train(
    dataset: Dataset, recipe: Recipe, on_progress: Progress = lambda done, total: None
) -> Model:
    """Train on all but what is held out, and score on that.

    The same data, recipe and machine give the same model.
    """
    torch.manual_seed(recipe.seed)
    seen = dataset.select(~held_out(dataset, recipe.split, recipe.held_out, recipe.seed))
    parts = [
        (direction, part)
        for direction in Direction
        for part in _parts(seen.in_direction(direction), recipe.apart)
    ]
    networks: list[Network] = []
    for direction, part in parts:
        before, total = recipe.epochs * len(networks), recipe.epochs * len(parts)

        def show(epoch: int, before: int = before, total: int = total) -> None:
            on_progress(before + epoch, total)

        networks.append(train_network(part, direction, recipe, show))
    model = Model(dataset.devices, tuple(networks), Training())
    unseen = dataset.select(held_out(dataset, recipe.split, recipe.held_out, recipe.seed))
    training = Training(
        program=f"convfind-finddb-tools {version('convfind-finddb-tools')}",
        seed=recipe.seed,
        problems=len(seen),
        data_sha256=dataset.digest,
        scores={name: asdict(scores) for name, scores in evaluate(model, unseen).items()},
        split=recipe.split,
        held_out=recipe.held_out,
    )
    return replace(model, training=training)


def _parts(problems: Dataset, apart: int) -> list[Dataset]:
    """The problems that share a network: those of a spatial rank if there are so many, and all
    others.
    """
    ranks = problems.rows[:, _RANK]
    found, counts = np.unique(ranks, return_counts=True)
    own = found[counts >= apart]
    chosen = [*(ranks == rank for rank in own), ~np.isin(ranks, own)]
    return [problems.select(flags) for flags in chosen if flags.any()]


@dataclass(frozen=True, slots=True)
class _Tensors:
    """What the loss needs, a row for each problem."""

    inputs: torch.Tensor
    times: torch.Tensor  # logarithms less that of the work; 0 where there is none
    measured: torch.Tensor
    shares: torch.Tensor
    regret: torch.Tensor  # log times behind the best; 0 where there is none


def train_network(
    part: Dataset,
    direction: Direction,
    recipe: Recipe,
    on_epoch: Callable[[int], None] = lambda epoch: None,
) -> Network:
    """Train on problems of one direction."""
    solvers = part.used_solvers()
    inputs, mean, scale, base = _inputs(part, direction)
    tensors = _tensors(part, solvers, inputs, base)
    fitting = held_out(part, "family", recipe.calibration, recipe.seed + 1)
    if fitting.all() or not fitting.any():
        fitting = np.zeros(len(part), np.bool_)
    net = _perceptron(inputs.shape[1], recipe, _typical(tensors))
    _fit(net, tensors, np.flatnonzero(~fitting), recipe, on_epoch)
    layers = [layer for layer in net if isinstance(layer, torch.nn.Linear)]
    weights = [layer.weight.detach().numpy() for layer in layers]
    biases = [layer.bias.detach().numpy() for layer in layers]
    count = len(mean)
    # What a device adds to the first layer is one number for each unit: a bias of its own.
    biases[0] = biases[0] + weights[0][:, count:].T
    weights[0] = np.ascontiguousarray(weights[0][:, :count])
    net.eval()
    with torch.no_grad():
        predicted = net(tensors.inputs[fitting]).numpy()
    return Network(
        direction,
        solvers,
        Domain.of(part.rows),
        _fit_sharpness(predicted, part.select(fitting).log_times(solvers)),
        mean,
        scale,
        tuple(weights),
        tuple(biases),
    )


def _inputs(part: Dataset, direction: Direction) -> tuple[Floats, Floats, Floats, Floats]:
    """Normalised features, then one column for each device; mean and scale; log of the work."""
    units = np.array([device.compute_units for device in part.devices], np.float32)
    columns = feature_columns(part.rows, units[part.device], direction)
    mean = columns.mean(axis=1, dtype=np.float64).astype(np.float32)
    scale = columns.std(axis=1, dtype=np.float64).astype(np.float32)
    scale[scale < 1e-5] = 1.0
    normal = ((columns - mean[:, None]) / scale[:, None]).T
    flags = np.zeros((len(part), len(part.devices)), np.float32)
    flags[np.arange(len(part)), part.device] = 1.0
    return np.hstack([normal, flags]), mean, scale, log_work(columns)


def _tensors(part: Dataset, solvers: tuple[str, ...], inputs: Floats, base: Floats) -> _Tensors:
    times = part.log_times(solvers)
    measured = np.isfinite(times)
    behind = np.clip(times - times.min(axis=1, keepdims=True), 0.0, _FAR)
    shares = np.where(measured, np.exp(-_CONTRAST * behind), 0.0)
    shares /= shares.sum(axis=1, keepdims=True)
    relative = np.where(measured, times - base[:, None], 0.0)
    return _Tensors(
        torch.from_numpy(inputs),
        torch.from_numpy(relative.astype(np.float32)),
        torch.from_numpy(measured),
        torch.from_numpy(shares.astype(np.float32)),
        torch.from_numpy(np.where(measured, behind.clip(0.0, _MOST_REGRET), 0.0)),
    )


def _typical(tensors: _Tensors) -> torch.Tensor:
    """Mean of each solver's values, from which the training starts."""
    return tensors.times.sum(0) / tensors.measured.sum(0).clamp(min=1)


def _perceptron(inputs: int, recipe: Recipe, start: torch.Tensor) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for most in recipe.hidden:
        width = min(most, recipe.units_per_solver * len(start))
        layers += [torch.nn.Linear(inputs, width), torch.nn.ReLU()]
        if recipe.dropout:
            layers.append(torch.nn.Dropout(recipe.dropout))
        inputs = width
    last = torch.nn.Linear(inputs, len(start))
    with torch.no_grad():
        last.weight *= 0.3
        last.bias[:] = start
    return torch.nn.Sequential(*layers, last)


def _fit(
    net: torch.nn.Sequential,
    tensors: _Tensors,
    rows: NDArray[np.int64],
    recipe: Recipe,
    on_epoch: Callable[[int], None],
) -> None:
    """Adam with a rate that rises and falls once."""
    batch = max(8, min(recipe.batch, len(rows) // 16))
    steps = max(1, len(rows) // batch)
    rounds = math.ceil(_FEWEST_STEPS / steps)
    optimizer = torch.optim.AdamW(net.parameters(), recipe.rate, weight_decay=recipe.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.rate, total_steps=recipe.epochs * rounds * steps + 1, pct_start=0.1
    )
    generator = np.random.default_rng(recipe.seed)
    net.train()
    for epoch in range(recipe.epochs):
        for _ in range(rounds):
            order = torch.from_numpy(generator.permutation(rows))
            for step in range(steps):
                loss: Any = _loss(net, tensors, order[step * batch : (step + 1) * batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
        on_epoch(epoch + 1)


def _loss(net: torch.nn.Sequential, tensors: _Tensors, rows: torch.Tensor) -> torch.Tensor:
    predicted = net(tensors.inputs[rows])
    measured = tensors.measured[rows]
    odds = torch.where(measured, -_SHARPNESS * predicted, torch.full_like(predicted, _NEVER))
    log_odds = torch.log_softmax(odds, 1)
    choice = -(tensors.shares[rows] * log_odds).sum()
    regret = (tensors.regret[rows] * log_odds.exp()).sum()
    errors = torch.where(measured, predicted - tensors.times[rows], torch.zeros_like(predicted))
    zero = torch.zeros_like(errors)
    error = torch.nn.functional.smooth_l1_loss(errors, zero, beta=0.1, reduction="sum")
    none = torch.full_like(errors, math.inf)
    best = torch.where(measured, tensors.times[rows], none).amin(1, keepdim=True)
    early = torch.where(measured, zero, best + _BEHIND - predicted).clamp(min=0.0).sum()
    return (choice + _REGRET * regret + error + _CENSORED * early) / len(rows)


def _fit_sharpness(predicted: Floats, times: Floats) -> float:
    """The sharpness by which the confidence is most likely, on problems not trained on."""
    several = np.isfinite(times).sum(axis=1) > 1
    if not several.any():
        return _SHARPNESS
    predicted, times = predicted[several], times[several]
    best = times.argmin(axis=1)
    candidates = np.geomspace(0.5, 64.0, 57)
    costs = []
    for sharpness in candidates:
        odds = np.where(np.isfinite(times), -sharpness * predicted, -np.inf)
        odds = odds - odds.max(axis=1, keepdims=True)
        total = np.log(np.exp(odds).sum(axis=1))
        costs.append(float((total - odds[np.arange(len(odds)), best]).mean()))
    return float(candidates[int(np.argmin(costs))])
