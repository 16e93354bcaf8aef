"""Training: perceptrons for each direction, from measured times. Needs PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version

import numpy as np
import torch

from convfind.heuristics.domain import Domain, Region
from convfind.heuristics.features import REMAINDERS, SIZES, feature_columns
from convfind.heuristics.model_file import Model, Training
from convfind.heuristics.neighbours import Relation
from convfind.heuristics.network import UNSEEN, Floats, Network, log_work
from convfind.heuristics.ramps import Ramps
from convfind.types import Direction
from convfind_finddb_tools.heuristics.dataset import Dataset
from convfind_finddb_tools.heuristics.evaluation import evaluate
from convfind_finddb_tools.heuristics.nearest import Nearest, nearest, told
from convfind_finddb_tools.heuristics.perceptrons import (
    SHARPNESS,
    Examples,
    Form,
    Pace,
    Perceptrons,
)
from convfind_finddb_tools.heuristics.split import Split, held_out

_FINE = 0.25  # size of ramps and remainders: as large as the features they spoil rare cases

_RANK = SIZES.index("spatial_rank")
_NOBODY: Mapping[Relation, Nearest] = {}
_NOWHERE: Mapping[Direction, frozenset[Region]] = {}
_NOTHING = (np.zeros(0, np.float32), np.ones(0, np.float32))

Progress = Callable[[int, int], None]

_FORMS = (
    (1500, Form(hidden=(176, 112), dropout=0.06, decay=0.6, is_fine=True)),
    (0, Form(hidden=(64, 32), dropout=0.15, decay=0.05, members=4, distance=0.0)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to train; the defaults are what worked best on MIOpen's databases and a CPU's."""

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
    weak: Mapping[Direction, frozenset[Region]] = _NOWHERE,
) -> Model:
    """Train on all but what is held out, and score on that, without any neighbour.

    The same data, recipe and machine give the same model. Records of ``siblings`` are neighbours
    only, and none of them is held out. The model refuses problems of regions where it is ``weak``.
    """
    torch.manual_seed(recipe.seed)
    seen = dataset.select(~held_out(dataset, recipe.split, recipe.held_out, recipe.seed))
    parts = [
        (direction, part, near)
        for direction in Direction
        for part in _parts(seen.in_direction(direction), recipe.apart)
        for near in _neighbourhoods(part, siblings, recipe.neighbours)
    ]
    total = recipe.epochs * len(parts)
    done = itertools.count(1)
    networks = [
        train_network(part, direction, recipe, lambda: on_progress(next(done), total), near)
        for direction, part, near in parts
    ]
    for place, network in enumerate(networks):
        domain = replace(network.domain, weak=weak.get(network.direction, frozenset()))
        networks[place] = replace(network, domain=domain)
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


def train_network(
    part: Dataset,
    direction: Direction,
    recipe: Recipe,
    on_epoch: Callable[[], None] = lambda: None,
    near: Mapping[Relation, Nearest] = _NOBODY,
) -> Network:
    """Train on problems of one direction, also on those that lack some of the neighbours."""
    solvers = part.used_solvers()
    evidence = tuple((relation, _evidence(found)) for relation, found in near.items())
    form = recipe.form(len(part))
    untrained = Network(direction, solvers, Domain.of(part.rows), 0.0, *_NOTHING, (), (), evidence)
    inputs, ramps, mean, scale, base = _inputs(part, untrained, near, is_fine=form.is_fine)
    times = part.log_times(solvers)
    examples = Examples.of(inputs, times, base)
    fitting = held_out(part, "family", recipe.calibration, recipe.seed + 1)
    if fitting.all() or not fitting.any():
        fitting = np.zeros(len(part), np.bool_)
    widths = (min(most, recipe.units_per_solver * len(solvers)) for most in form.hidden)
    net = Perceptrons(form, (inputs.shape[1], *widths), examples.typical)
    pace = Pace(recipe.epochs, recipe.batch, recipe.rate, recipe.seed)
    net.learn(examples, np.flatnonzero(~fitting), pace, on_epoch)
    weights, biases = net.side_by_side()
    count = len(mean)
    # What a device adds to the first layer is one number for each unit: a bias of its own.
    biases[0] = biases[0] + weights[0][:, count:].T
    weights[0] = np.ascontiguousarray(weights[0][:, :count])
    return replace(
        untrained,
        sharpness=_fit_sharpness(net.mean(examples.inputs[fitting]).numpy(), times[fitting]),
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


def _fit_sharpness(predicted: Floats, times: Floats) -> float:
    """The sharpness by which the confidence is most likely, on problems not trained on."""
    several = np.isfinite(times).sum(axis=1) > 1
    if not several.any():
        return SHARPNESS
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
