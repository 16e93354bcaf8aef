"""Training: perceptrons for each direction, from measured times. Needs PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version

import numpy as np
import torch
from numpy.typing import NDArray

from convfind.errors import ModelError
from convfind.heuristics.domain import Region
from convfind.heuristics.features import SIZES
from convfind.heuristics.model_file import Model, Training
from convfind.heuristics.neighbours import Relation
from convfind.heuristics.network import Network
from convfind.types import Direction
from convfind_finddb_tools.heuristics.dataset import Dataset
from convfind_finddb_tools.heuristics.evaluation import evaluate
from convfind_finddb_tools.heuristics.lessons import Lessons
from convfind_finddb_tools.heuristics.made_problems import made_problems
from convfind_finddb_tools.heuristics.nearest import Nearest, nearest
from convfind_finddb_tools.heuristics.perceptrons import Form, Pace, Perceptrons
from convfind_finddb_tools.heuristics.split import Split, held_out
from convfind_finddb_tools.heuristics.task import Task
from convfind_finddb_tools.heuristics.teaching import Teaching

_RANK, _DTYPE = SIZES.index("spatial_rank"), SIZES.index("dtype")
_NOBODY: Mapping[Relation, Nearest] = {}
_NOWHERE: Mapping[Direction, frozenset[Region]] = {}

Progress = Callable[[int, int], None]

_FORMS = (
    (1500, Form(hidden=(176, 112), dropout=0.06, decay=0.6, is_fine=True)),
    (0, Form(hidden=(64, 32), dropout=0.15, decay=0.05, members=4, distance=0.0)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to train; the defaults worked best on MIOpen's databases and a CPU's."""

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
    teaching: Teaching | None = None  # None: networks learn by themselves
    device: str | None = None  # of PyTorch; None: a GPU that it sees, else the CPU

    def form(self, problems: int) -> Form:
        """Return the form of a network that learns from so many problems."""
        return next(form for fewest, form in self.forms if problems >= fewest)

    def teaching_of(self, problems: int) -> Teaching | None:
        """Return how networks are taught that learn from this many problems."""
        is_taught = self.teaching is not None and problems >= self.teaching.fewest
        return self.teaching if is_taught else None


def training_device(wanted: str | None) -> str:
    """Return the PyTorch device to train on: as given, else a GPU if present, else the CPU.

    Raises:
        ModelError: a GPU is wanted, and PyTorch sees none.
    """
    is_there = torch.cuda.is_available()
    if wanted == "cuda" and not is_there:
        msg = "PyTorch sees no GPU: train with --device cpu"
        raise ModelError(msg)
    return wanted or ("cuda" if is_there else "cpu")


def train(
    dataset: Dataset,
    recipe: Recipe,
    on_progress: Progress = lambda done, total: None,
    siblings: Dataset | None = None,
    weak: Mapping[Direction, frozenset[Region]] = _NOWHERE,
) -> Model:
    """Train on all data except the held-out ones, and score on those, without neighbours.

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
    taught = [recipe.teaching_of(len(part)) for _, part, _ in parts]
    total = recipe.epochs * sum(1 + (len(each.teachers) if each else 0) for each in taught)
    done = itertools.count(1)
    networks = [
        network
        for direction, part, near in parts
        for network in train_networks(
            *(part, direction, recipe, lambda: on_progress(next(done), total), near)
        )
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
    return [problems.select(flags) for flags in _shares(problems.rows[:, _RANK], apart)]


def _shares(values: NDArray[np.int32], fewest: int) -> list[NDArray[np.bool_]]:
    """Return the positions of each frequent value, and those of all others."""
    found, counts = np.unique(values, return_counts=True)
    own = found[counts >= fewest]
    chosen = [*(values == value for value in own), ~np.isin(values, own)]
    return [flags for flags in chosen if flags.any()]


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


def train_networks(
    part: Dataset,
    direction: Direction,
    recipe: Recipe,
    on_epoch: Callable[[], None] = lambda: None,
    near: Mapping[Relation, Nearest] = _NOBODY,
) -> list[Network]:
    """Train on problems of one direction, also on those that lack some of the neighbours.

    One network knows all of them, or where they are taught one the problems of each data type.
    """
    teaching = recipe.teaching_of(len(part))
    form = recipe.form(len(part)) if teaching is None else teaching.student
    fitting = held_out(part, "family", recipe.calibration, recipe.seed + 1)
    if fitting.all() or not fitting.any():
        fitting = np.zeros(len(part), np.bool_)
    device = training_device(recipe.device)
    task = Task.of(part, direction, near, fitting, device, is_fine=form.is_fine)
    pace = Pace(recipe.epochs, recipe.batch, recipe.rate, recipe.seed)
    nets = []
    for first in (form,) if teaching is None else teaching.teachers:
        net = task.perceptrons(first, recipe.units_per_solver)
        net.learn(task.examples, [np.flatnonzero(~fitting)] * first.members, pace, on_epoch)
        nets.append(net)
    if teaching is None:
        return [task.network(nets[0], slice(None), np.ones(len(part), np.bool_))]
    shares = _shares(part.rows[:, _DTYPE], teaching.apart)
    # Rare problems are too few to learn from: their student learns from everything.
    own = [chosen & ~fitting for chosen in shares]
    own = [flags if 2 * flags.sum() >= teaching.apart else ~fitting for flags in own]
    lessons = _lessons(task, nets, own, teaching.made, recipe.seed)
    form = replace(form, members=len(shares))
    students = task.perceptrons(form, recipe.units_per_solver)
    pace = replace(pace, steps=teaching.steps)
    students.learn(task.examples, list(map(np.flatnonzero, own)), pace, on_epoch, lessons)
    return [
        task.network(students, slice(place, place + 1), chosen)
        for place, chosen in enumerate(shares)
    ]


def _lessons(
    task: Task, teachers: list[Perceptrons], own: list[NDArray[np.bool_]], made: int, seed: int
) -> Lessons:
    """Ask teachers about the problems and so many made ones.

    Each student learns from those of the data types of its ``own`` problems.
    """
    part = task.part
    rows, source = made_problems(part.rows, made, seed)
    others, _ = task.sight.inputs(rows, part.device[source], task.told[source])
    asked = np.vstack([task.inputs, others])
    types = np.concatenate([part.rows[:, _DTYPE], rows[:, _DTYPE]])
    answers = zip(*(teacher.answers(asked) for teacher in teachers), strict=True)
    times, odds = (np.stack(each).mean(axis=0, dtype=np.float32) for each in answers)
    measured = np.isfinite(task.times)
    listed = np.vstack([measured, measured[source]])

    def moved(values: NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(values).to(task.device)

    return Lessons(
        moved(asked),
        moved(times),
        moved(odds),
        moved(listed),
        [np.flatnonzero(np.isin(types, part.rows[flags, _DTYPE])) for flags in own],
    )
