"""Training: perceptrons for each direction, from measured times. Needs PyTorch.

A network predicts the logarithm of each solver's time. Its loss has five parts: the error of the
measured times; that of their distances from the fastest one; the cross-entropy of choosing among
the measured solvers, whose targets are shares that fall with the twentieth power of the time; the
expected regret, which is the log slowdown of a choice by these odds; and, for solvers without a
time, by how much they are predicted to be faster than a little behind the best: they cannot run the
problem, or were slower than what was recorded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convfind.heuristics.domain import Domain
from convfind.heuristics.features import REMAINDERS, SIZES, feature_columns
from convfind.heuristics.model_file import Model, Training
from convfind.heuristics.neighbours import Relation
from convfind.heuristics.network import UNSEEN, Floats, Network, log_work
from convfind.heuristics.ramps import Ramps
from convfind.types import Direction
from convfind_finddb_tools.heuristics.dataset import Dataset
from convfind_finddb_tools.heuristics.evaluation import evaluate
from convfind_finddb_tools.heuristics.nearest import Nearest, nearest, told
from convfind_finddb_tools.heuristics.split import Split, held_out

_CONTRAST = 20.0  # power of the time in the targets
_SHARPNESS = 8.0  # log times to odds while training
_FAR = 4.0  # log times further than this from the best have no share
_NEVER = -1e9
_REGRET = 2.0  # weight of the expected regret
_MOST_REGRET = 2.0  # log times further than this from the best are no worse
_BEHIND = 0.2  # log time by which a solver without a time should be behind the best
_CENSORED = 0.1  # weight of that
_FINE = 0.25  # size of ramps and remainders: as large as the features they spoil rare cases
_FEWEST_STEPS = 40  # of an epoch with little data

_RANK = SIZES.index("spatial_rank")
_NOBODY: Mapping[Relation, Nearest] = {}
_NOTHING = (np.zeros(0, np.float32), np.ones(0, np.float32))

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of a network, and what keeps it from learning its problems by heart."""

    hidden: tuple[int, ...]  # units of each layer, at most
    dropout: float
    decay: float  # of the weights
    members: int = 1  # the mean of so many networks
    is_fine: bool = False  # ramps and remainders
    distance: float = 1.0  # weight of the error of the distances, which noise makes worse


_FORMS = (
    (4000, Form(hidden=(176, 112), dropout=0.06, decay=0.6, is_fine=True)),
    (1500, Form(hidden=(240, 160), dropout=0.08, decay=0.05)),
    (0, Form(hidden=(64, 32), dropout=0.15, decay=0.05, members=4, distance=0.0)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to train; the defaults are what worked best on MIOpen's databases."""

    seed: int = 0
    forms: tuple[tuple[int, Form], ...] = _FORMS  # from so many problems on, the most first
    units_per_solver: int = 28  # units of a layer at most
    apart: int = 4000  # problems of one spatial rank that get a network of their own
    neighbours: int = 4000  # problems with a neighbour from which on a network learns from them
    epochs: int = 50
    batch: int = 1024
    rate: float = 4e-3
    calibration: float = 0.03  # share of the families by which the confidence is calibrated
    held_out: float = 0.2  # share that is not trained on
    split: Split = "family"

    def form(self, problems: int) -> Form:
        """That of a network which learns from so many problems."""
        return next(form for fewest, form in self.forms if problems >= fewest)


def train(
    dataset: Dataset,
    recipe: Recipe,
    on_progress: Progress = lambda done, total: None,
    siblings: Dataset | None = None,
) -> Model:
    """Train on all but what is held out, and score on that, without any neighbour.

    The same data, recipe and machine give the same model. Records of ``siblings`` are neighbours
    only, and none of them is held out.
    """
    torch.manual_seed(recipe.seed)
    seen = dataset.select(~held_out(dataset, recipe.split, recipe.held_out, recipe.seed))
    parts = [
        (direction, part, near)
        for direction in Direction
        for part in _parts(seen.in_direction(direction), recipe.apart)
        for near in _neighbourhoods(part, siblings, recipe.neighbours)
    ]
    networks: list[Network] = []
    for direction, part, near in parts:
        before, total = recipe.epochs * len(networks), recipe.epochs * len(parts)

        def show(epoch: int, before: int = before, total: int = total) -> None:
            on_progress(before + epoch, total)

        networks.append(train_network(part, direction, recipe, show, near))
    others = () if siblings is None else tuple(device.identity for device in siblings.devices)
    model = Model(dataset.devices, tuple(networks), Training(), others)
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


def _neighbourhoods(
    part: Dataset, siblings: Dataset | None, fewest: int
) -> list[dict[Relation, Nearest]]:
    """The neighbours that a network may be told of: none, and what enough problems have."""
    near = nearest(part, siblings)
    chosen: list[dict[Relation, Nearest]] = [{}]
    for count in range(1, len(near) + 1):
        for relations in itertools.combinations(near, count):
            known = np.logical_and.reduce([near[relation].known for relation in relations])
            if known.sum() >= fewest:
                chosen.append({relation: near[relation] for relation in relations})
    return chosen


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
    near: Mapping[Relation, Nearest] = _NOBODY,
) -> Network:
    """Train on problems of one direction, also on those that lack some of the neighbours."""
    solvers = part.used_solvers()
    evidence = tuple((relation, _evidence(found)) for relation, found in near.items())
    form = recipe.form(len(part))
    untrained = Network(direction, solvers, Domain.of(part.rows), 0.0, *_NOTHING, (), (), evidence)
    inputs, ramps, mean, scale, base = _inputs(part, untrained, near, is_fine=form.is_fine)
    tensors = _tensors(part, solvers, inputs, base)
    fitting = held_out(part, "family", recipe.calibration, recipe.seed + 1)
    if fitting.all() or not fitting.any():
        fitting = np.zeros(len(part), np.bool_)
    widths = (min(most, recipe.units_per_solver * len(solvers)) for most in form.hidden)
    net = _Perceptrons(form.members, (inputs.shape[1], *widths), form.dropout, _typical(tensors))
    _fit(net, tensors, np.flatnonzero(~fitting), recipe, form, on_epoch)
    weights, biases = net.side_by_side()
    count = len(mean)
    # What a device adds to the first layer is one number for each unit: a bias of its own.
    biases[0] = biases[0] + weights[0][:, count:].T
    weights[0] = np.ascontiguousarray(weights[0][:, :count])
    with torch.no_grad():
        predicted = net(tensors.inputs[fitting].expand(form.members, -1, -1)).mean(0).numpy()
    return replace(
        untrained,
        sharpness=_fit_sharpness(predicted, part.select(fitting).log_times(solvers)),
        mean=mean,
        scale=scale,
        weights=tuple(weights),
        biases=tuple(biases),
        ramps=ramps,
    )


def _evidence(near: Nearest) -> tuple[str, ...]:
    """The solvers that occur among neighbours."""
    chosen = np.zeros(len(near.source), np.bool_)
    chosen[near.place[near.known]] = True
    return near.source.select(chosen).used_solvers()


def _block_diagonal(blocks: Sequence[Floats]) -> Floats:
    rows, columns = np.sum([block.shape for block in blocks], axis=0)
    matrix = np.zeros((rows, columns), np.float32)
    row = column = 0
    for block in blocks:
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return matrix


def _inputs(
    part: Dataset, network: Network, near: Mapping[Relation, Nearest], *, is_fine: bool
) -> tuple[Floats, Ramps, Floats, Floats, Floats]:
    """Normalised ramps and features, what is told of neighbours, then one column for each device;
    ramps; mean and scale; log of the work.
    """
    units = np.array([device.compute_units for device in part.devices], np.float32)
    columns = feature_columns(part.rows, units[part.device], network.direction)
    ramps = Ramps.of(columns) if is_fine else Ramps.none()
    values = np.vstack([ramps.of_columns(columns), columns])
    mean = values.mean(axis=1, dtype=np.float64).astype(np.float32)
    scale = values.std(axis=1, dtype=np.float64).astype(np.float32)
    scale[scale < 1e-5] = 1.0
    scale[: len(ramps)] /= _FINE
    scale[-REMAINDERS:] = scale[-REMAINDERS:] / _FINE if is_fine else UNSEEN
    inputs = ((values - mean[:, None]) / scale[:, None]).T
    more = told(network, near, columns)
    if more is not None:
        inputs = np.hstack([inputs, more])
        mean = np.pad(mean, (0, more.shape[1]))
        scale = np.pad(scale, (0, more.shape[1]), constant_values=1.0)
    flags = np.zeros((len(part), len(part.devices)), np.float32)
    flags[np.arange(len(part)), part.device] = 1.0
    return np.hstack([inputs, flags]), ramps, mean, scale, log_work(columns)


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


class _Perceptrons:
    """Several perceptrons of one form that learn side by side: (members, rows, values).

    Values are dropped only where gradients are wanted.
    """

    def __init__(
        self, members: int, widths: tuple[int, ...], dropout: float, start: torch.Tensor
    ) -> None:
        self._dropout = dropout
        self.weights: list[torch.nn.Parameter] = []
        self.biases: list[torch.nn.Parameter] = []
        for inputs, outputs in itertools.pairwise((*widths, len(start))):
            bound = inputs**-0.5
            weight = torch.empty(members, inputs, outputs).uniform_(-bound, bound)
            bias = torch.empty(members, 1, outputs).uniform_(-bound, bound)
            self.weights.append(torch.nn.Parameter(weight))
            self.biases.append(torch.nn.Parameter(bias))
        with torch.no_grad():
            self.weights[-1] *= 0.3
            self.biases[-1][:] = start

    def parameters(self) -> list[torch.nn.Parameter]:
        """What an optimiser changes."""
        return self.weights + self.biases

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Inputs of each member to its outputs."""
        layers = list(zip(self.weights, self.biases, strict=True))
        for weight, bias in layers[:-1]:
            values = torch.baddbmm(bias, values, weight).relu()
            values = torch.nn.functional.dropout(values, self._dropout, torch.is_grad_enabled())
        return torch.baddbmm(layers[-1][1], values, layers[-1][0])

    def side_by_side(self) -> tuple[list[Floats], list[Floats]]:
        """Weights, (outputs, inputs), and biases of the one perceptron that is their mean."""
        first, *middle, last = (w.detach().numpy().transpose(0, 2, 1) for w in self.weights)
        *biases, typical = (bias.detach().numpy() for bias in self.biases)
        count = np.float32(len(first))
        return (
            [np.vstack(first), *map(_block_diagonal, middle), np.hstack(last) / count],
            [*(bias.reshape(-1) for bias in biases), typical.mean(axis=0).reshape(-1)],
        )


def _fit(
    net: _Perceptrons,
    tensors: _Tensors,
    rows: NDArray[np.int64],
    recipe: Recipe,
    form: Form,
    on_epoch: Callable[[int], None],
) -> None:
    """Adam with a rate that rises and falls once; each member has an order of its own."""
    batch = max(8, min(recipe.batch, len(rows) // 16))
    steps = max(1, len(rows) // batch)
    rounds = math.ceil(_FEWEST_STEPS / steps)
    optimizer = torch.optim.AdamW(net.parameters(), recipe.rate, weight_decay=form.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.rate, total_steps=recipe.epochs * rounds * steps + 1, pct_start=0.1
    )
    generator = np.random.default_rng(recipe.seed)
    for epoch in range(recipe.epochs):
        for _ in range(rounds):
            orders = [generator.permutation(rows) for _ in net.weights[0]]
            order = torch.from_numpy(np.stack(orders))
            for step in range(steps):
                chosen = order[:, step * batch : (step + 1) * batch]
                loss: Any = _loss(net, tensors, chosen, form.distance)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
        on_epoch(epoch + 1)


def _loss(
    net: _Perceptrons, tensors: _Tensors, chosen: torch.Tensor, distance: float
) -> torch.Tensor:
    """The sum of the members' losses; ``chosen`` are the rows of each, (members, rows)."""
    predicted = net(tensors.inputs[chosen]).flatten(0, 1)
    rows = chosen.flatten()
    measured = tensors.measured[rows]
    odds = torch.where(measured, -_SHARPNESS * predicted, torch.full_like(predicted, _NEVER))
    log_odds = torch.log_softmax(odds, 1)
    choice = -(tensors.shares[rows] * log_odds).sum()
    regret = (tensors.regret[rows] * log_odds.exp()).sum()
    errors = torch.where(measured, predicted - tensors.times[rows], torch.zeros_like(predicted))
    zero = torch.zeros_like(errors)
    error = torch.nn.functional.smooth_l1_loss(errors, zero, beta=0.1, reduction="sum")
    none = torch.full_like(errors, math.inf)
    best, fastest = torch.where(measured, tensors.times[rows], none).min(1, keepdim=True)
    apart = torch.where(measured, errors - errors.gather(1, fastest), zero)
    apart_error = torch.nn.functional.smooth_l1_loss(apart, zero, beta=0.1, reduction="sum")
    error = error + distance * apart_error
    early = torch.where(measured, zero, best + _BEHIND - predicted).clamp(min=0.0).sum()
    return (choice + _REGRET * regret + error + _CENSORED * early) / chosen.shape[1]


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
