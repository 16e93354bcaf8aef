"""`Nearest`: the recorded neighbours of many problems, and their network inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from convfind.heuristics.domain import undescribed
from convfind.heuristics.features import SIZES, sizes
from convfind.heuristics.neighbours import (
    BATCH_RATIOS,
    MORE_INPUTS,
    SPEED_POWER,
    Neighbour,
    Records,
    Relation,
)
from convfind.heuristics.network import Floats, Network, log_work
from convfind.problem import ConvProblem
from convfind.types import Direction
from convfind_finddb_tools.heuristics.dataset import Dataset

_BATCH = SIZES.index("batch")


@dataclass(frozen=True, slots=True)
class Nearest:
    """For each of many problems the neighbour of one relation.

    Attributes:
        relation: that all of them have.
        source: what they are among.
        place: index of each problem's neighbour there, -1 where it has none.
        ratio: batch size of the neighbour over that of the problem.
    """

    relation: Relation
    source: Dataset
    place: NDArray[np.int64]
    ratio: NDArray[np.float32]

    @property
    def known(self) -> NDArray[np.bool_]:
        """True for problems that have one."""
        return self.place >= 0

    def select(self, chosen: NDArray[np.bool_]) -> Nearest:
        """Return the neighbours of the chosen problems."""
        return replace(self, place=self.place[chosen], ratio=self.ratio[chosen])

    def inputs(self, solvers: tuple[str, ...], columns: Floats) -> Floats:
        """Return a network's inputs from neighbours, (problems, inputs); zeros if there is none.

        As `write_inputs` for one problem. ``columns`` are the problems' features.
        """
        inputs = np.zeros((len(self.place), len(solvers) + MORE_INPUTS), np.float32)
        known = self.known
        chosen = np.zeros(len(self.source), np.bool_)
        chosen[self.place[known]] = True
        records = self.source.select(chosen)
        if len(records):
            where = (np.cumsum(chosen) - 1)[self.place[known]]
            best = records.log_times(records.used_solvers()).min(axis=1)
            speeds = np.exp(SPEED_POWER * (best[:, None] - records.log_times(solvers)))
            inputs[known, : len(solvers)] = speeds[where]
            inputs[known, -3] = 1.0
            inputs[known, -2] = best[where] - log_work(columns[:, known], self.ratio[known])
            inputs[known, -1] = np.log2(self.ratio[known])
        return inputs

    def neighbour(self, number: int) -> Neighbour | None:
        """Return the neighbour of one problem."""
        place = int(self.place[number])
        if place < 0:
            return None
        source = self.source
        return Neighbour(
            self.relation,
            source.devices[source.device[place]].identity,
            ConvProblem.from_key(str(source.texts[place])),
            _times(source, place),
        )


def nearest(dataset: Dataset, siblings: Dataset | None) -> dict[Relation, Nearest]:
    """The neighbours of all problems: among themselves, and in the records of sibling devices."""
    found = {}
    if siblings is not None:
        found[Relation.SIBLING] = _sibling(dataset, siblings)
    found[Relation.BATCH] = _batch(dataset)
    return found


def told(network: Network, near: Mapping[Relation, Nearest], columns: Floats) -> Floats | None:
    """Return a network's inputs from neighbours, besides the features, (problems, inputs)."""
    if not network.evidence:
        return None
    return np.hstack([near[relation].inputs(ids, columns) for relation, ids in network.evidence])


def records_of(dataset: Dataset) -> Records:
    """Look records up by device and problem, as a database does."""
    devices = [device.identity for device in dataset.devices]
    directions = tuple(Direction)
    places = {
        (devices[device], directions[direction], tuple(row)): place
        for place, (device, direction, row) in enumerate(
            zip(dataset.device, dataset.directions, dataset.rows.tolist(), strict=True)
        )
    }

    def look_up(device: str, problem: ConvProblem) -> dict[str, float]:
        place = places.get((device, problem.direction, sizes(problem)))
        return {} if place is None or undescribed(problem) else _times(dataset, place)

    return look_up


def _times(dataset: Dataset, place: int) -> dict[str, float]:
    first, last = np.searchsorted(dataset.time_row, (place, place + 1))
    entries = zip(dataset.time_solver[first:last], dataset.time_ms[first:last], strict=True)
    return {dataset.solvers[solver]: float(time) for solver, time in entries}


def _sibling(dataset: Dataset, siblings: Dataset) -> Nearest:
    """Return the first of several siblings with a record."""
    first: dict[str, int] = {}
    own = [device.identity for device in dataset.devices]
    other = [device.identity not in own for device in siblings.devices]
    for number, text in enumerate(siblings.texts.tolist()):
        if other[siblings.device[number]]:
            first.setdefault(text, number)
    place = np.array([first.get(text, -1) for text in dataset.texts.tolist()], np.int64)
    return Nearest(Relation.SIBLING, siblings, place, np.ones(len(place), np.float32))


def _batch(dataset: Dataset) -> Nearest:
    """The first in the order of `BATCH_RATIOS`."""
    others = np.column_stack([dataset.rows, dataset.directions, dataset.device]).astype(np.int32)
    batches = others[:, _BATCH].copy()
    others[:, _BATCH] = 0
    layers = [row.tobytes() for row in others]
    places = {key: place for place, key in enumerate(zip(layers, batches.tolist(), strict=True))}
    place = np.full(len(dataset), -1, np.int64)
    ratios = np.ones(len(dataset), np.float32)
    for ratio in BATCH_RATIOS:
        wanted = zip(layers, (batches * ratio).tolist(), strict=True)  # 0.5 is nobody's batch size
        found = np.array([places.get(key, -1) for key in wanted], np.int64)
        new = (place < 0) & (found >= 0)
        place[new] = found[new]
        ratios[new] = ratio
    return Nearest(Relation.BATCH, dataset, place, ratios)
