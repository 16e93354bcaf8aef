"""Scores: the cost of a model's first choices on problems with measured times."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from convfind.device.target import DeviceKind, Target
from convfind.heuristics.contract import NotApplicable
from convfind.heuristics.features import feature_columns
from convfind.heuristics.model import TrainedHeuristic
from convfind.heuristics.model_file import Model
from convfind.heuristics.neighbours import Relation
from convfind.heuristics.network import Floats, Network
from convfind.problem import ConvProblem
from convfind.solver import Solver
from convfind.types import Direction
from convfind_finddb_tools.heuristics.dataset import Dataset
from convfind_finddb_tools.heuristics.nearest import Nearest, nearest, told

_QUERIES = 2000  # problems on which the time of a query is measured
_BATCH = 4096  # problems of a batch at least: fewer are repeated
_BINS = 10


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of a model on one device, among the solvers that a record holds.

    Slowdowns are the time of the choice over that of the fastest solver; ``open1`` is the share of
    problems whose fastest solver the model prefers to all that it knows. The calibration error is
    the mean distance between confidence and success. Query times are microseconds.
    """

    problems: int
    not_applicable: int
    top1: float
    top3: float
    within5pct: float
    geomean_slowdown: float
    p95_slowdown: float
    p99_slowdown: float
    over2x: float
    open1: float
    median_time_error: float
    calibration_error: float

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Scores:
        """Read what a model's file holds."""
        counts = {name: int(values[name]) for name in ("problems", "not_applicable")}
        return cls(**{**values, **counts})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Choices:
    """Per problem: what the model prefers, and what that costs."""

    slowdown: NDArray[np.float64]
    rank: NDArray[np.int64]  # of the fastest solver, from 0
    is_open_best: NDArray[np.bool_]
    confidence: NDArray[np.float64]
    time_errors: NDArray[np.float64]  # one for each measured time


def evaluate(
    model: Model,
    dataset: Dataset,
    known: Collection[Relation] = (),
    siblings: Dataset | None = None,
) -> dict[str, Scores]:
    """Score a model on the problems of each of its devices.

    Args:
        model: the model.
        dataset: what to score on.
        known: relations of the neighbours that it is told of, where a problem has one.
        siblings: the records of sibling devices.
    """
    scores = {}
    units = {device.identity: device for device in model.devices}
    for device in dataset.devices:
        if device.identity in units:
            part = dataset.on_device(device.identity)
            if len(part):
                near = {r: found for r, found in nearest(part, siblings).items() if r in known}
                scores[device.identity] = _scores(model, part, device.identity, near)
    return scores


@dataclass(frozen=True, slots=True)
class _Asked:
    """The problems about which one network is asked, and their places among those of a device."""

    network: Network
    problems: Dataset
    places: NDArray[np.int64]
    told: Floats | None


def _asked(
    model: Model, part: Dataset, units: int, near: dict[Relation, Nearest]
) -> Iterator[_Asked]:
    directions = tuple(Direction)
    known: list[tuple[Relation, ...]] = [() for _ in range(len(part))]
    for relation, found in near.items():
        for number in np.flatnonzero(found.known).tolist():
            known[number] = (*known[number], relation)
    answers = [
        model.network(directions[direction], row, relations)
        for direction, row, relations in zip(
            part.directions.tolist(), part.rows.tolist(), known, strict=True
        )
    ]
    for network in model.networks:
        chosen = np.array([answer is network for answer in answers], np.bool_)
        problems = part.select(chosen)
        refusals = [network.domain.refusal(row) for row in problems.rows.tolist()]
        chosen[chosen] = [text is None for text in refusals]
        problems = part.select(chosen)
        if len(problems):
            neighbours = {relation: found.select(chosen) for relation, found in near.items()}
            columns = feature_columns(problems.rows, units, network.direction)
            places = np.flatnonzero(chosen)
            yield _Asked(network, problems, places, told(network, neighbours, columns))


def _scores(model: Model, part: Dataset, identity: str, near: dict[Relation, Nearest]) -> Scores:
    index = [device.identity for device in model.devices].index(identity)
    units = model.devices[index].compute_units
    found = []
    for asked in _asked(model, part, units, near):
        network = asked.network
        times = asked.problems.log_times(network.solvers)
        predicted = network.batch(asked.problems.rows, units, index, asked.told)
        listed = np.asarray(np.isfinite(times).any(axis=1), np.bool_)
        if listed.any():
            found.append(_choices(predicted[listed], times[listed], network.sharpness))
    if not found:
        return Scores(len(part), len(part), *([0.0] * 3), *([float("inf")] * 3), *([0.0] * 4))
    slowdown = np.concatenate([choice.slowdown for choice in found])
    rank = np.concatenate([choice.rank for choice in found])
    confidence = np.concatenate([choice.confidence for choice in found])
    return Scores(
        problems=len(slowdown),
        not_applicable=len(part) - len(slowdown),
        top1=float((rank == 0).mean()),
        top3=float((rank < 3).mean()),
        within5pct=float((slowdown <= 1.05).mean()),
        geomean_slowdown=float(np.exp(np.log(slowdown).mean())),
        p95_slowdown=float(np.quantile(slowdown, 0.95)),
        p99_slowdown=float(np.quantile(slowdown, 0.99)),
        over2x=float((slowdown > 2).mean()),
        open1=float(np.concatenate([choice.is_open_best for choice in found]).mean()),
        median_time_error=float(
            np.median(np.concatenate([choice.time_errors for choice in found]))
        ),
        calibration_error=calibration_error(confidence, rank == 0),
    )


def first_choices(model: Model, dataset: Dataset) -> NDArray[np.float64]:
    """Return the cost of each problem's first choice, as the logarithm of the slowdown.

    It is NaN if the model refuses the problem, or knows none of its solvers or devices.
    """
    costs = np.full(len(dataset), np.nan)
    known = {device.identity for device in dataset.devices}
    for index, (name, units) in enumerate((d.identity, d.compute_units) for d in model.devices):
        if name not in known:
            continue
        rows = np.flatnonzero(dataset.of_device(name))
        for asked in _asked(model, dataset.on_device(name), units, {}):
            network, problems = asked.network, asked.problems
            times = problems.log_times(network.solvers)
            listed = np.isfinite(times).any(axis=1)
            predicted = network.batch(problems.rows[listed], units, index)
            chosen = _choices(predicted, times[listed], network.sharpness)
            costs[rows[asked.places[listed]]] = np.log(chosen.slowdown)
    return costs


def _choices(
    predicted: NDArray[np.float32], times: NDArray[np.float32], sharpness: float
) -> _Choices:
    everyone = np.arange(len(times))
    measured = np.isfinite(times)
    asked = np.where(measured, predicted, np.inf).astype(np.float64)
    choice = asked.argmin(axis=1)
    best = times.argmin(axis=1)
    slowdown = np.exp(times[everyone, choice].astype(np.float64) - times[everyone, best])
    odds = np.exp(-sharpness * (asked - asked.min(axis=1, keepdims=True)))
    # Solvers that tie for the fastest are all right.
    fastest = np.where(times <= times.min(axis=1, keepdims=True), asked, np.inf).min(axis=1)
    return _Choices(
        slowdown,
        (asked < fastest[:, None]).sum(axis=1),
        predicted.argmin(axis=1) == best,
        1.0 / odds.sum(axis=1),
        np.abs(np.expm1(predicted[measured].astype(np.float64) - times[measured])),
    )


def calibration_error(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Mean distance between confidence and success, in tenths of the confidence."""
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    error = 0.0
    for number in range(_BINS):
        chosen = bins == number
        if chosen.any():
            error += abs(float(confidence[chosen].mean()) - float(right[chosen].mean())) * float(
                chosen.mean()
            )
    return error


@dataclass(frozen=True, slots=True, eq=False)
class _Listed:
    """The name of a solver in a record, where a question needs a solver."""

    solver_id: str
    version: int
    is_last_resort: bool = False


def query_times(
    heuristic: TrainedHeuristic,
    dataset: Dataset,
    known: Collection[Relation] = (),
    siblings: Dataset | None = None,
) -> tuple[float, float]:
    """Microseconds of one question (median), and of one problem in a batch (the best of five).

    A question is about the solvers that its record holds, a batch about all that a network knows.
    Looking records of neighbours up is not part of it; making use of them is.
    """
    model = heuristic.model()
    identities = [device.identity for device in model.devices]
    device = next(d for d in dataset.devices if d.identity in identities)
    part = dataset.on_device(device.identity)
    near = {r: found for r, found in nearest(part, siblings).items() if r in known}
    target = Target("", "", DeviceKind.GPU, "", "", "", 1, "", identity=device.identity)
    chosen = np.linspace(0, len(part) - 1, min(_QUERIES, len(part))).astype(np.int64)
    starts = np.searchsorted(part.time_row, np.arange(len(part) + 1))
    listed = [
        _Listed(name.rpartition("@")[0], int(name.rpartition("@")[2])) for name in part.solvers
    ]
    questions = []
    for number in chosen.tolist():
        entries = part.time_solver[starts[number] : starts[number + 1]].tolist()
        solvers = cast("list[Solver]", [listed[entry] for entry in entries])
        neighbours = [found.neighbour(number) for found in near.values()]
        present = tuple(neighbour for neighbour in neighbours if neighbour is not None)
        questions.append((ConvProblem.from_key(str(part.texts[number])), solvers, present))
    samples = []
    for problem, solvers, present in (*questions, *questions):  # the first time solvers are new
        start = time.perf_counter()
        answer = heuristic.predict(problem, target, solvers, present)
        elapsed = time.perf_counter() - start
        if not isinstance(answer, NotApplicable):
            samples.append(elapsed)
    index = identities.index(device.identity)
    units = model.devices[index].compute_units
    times = -(-_BATCH // len(part))
    batches = [
        (
            asked.network,
            np.tile(asked.problems.rows, (times, 1)),
            None if asked.told is None else np.tile(asked.told, (times, 1)),
        )
        for asked in _asked(model, part, units, near)
    ]
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for network, rows, told_rows in batches:
            network.batch(rows, units, index, told_rows)
        elapsed = time.perf_counter() - start
        best = min(best, elapsed / max(1, sum(len(rows) for _, rows, _ in batches)))
    return float(np.median(samples)) * 1e6 if samples else float("inf"), best * 1e6
