"""A network of a model: features to the logarithm of each solver's time, in NumPy."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convfind.cached import cached_property
from convfind.heuristics.domain import Domain
from convfind.heuristics.features import (
    FEATURES,
    FORMULAS,
    LOG_MACS,
    REMAINDERS,
    feature_columns,
    features,
)
from convfind.heuristics.neighbours import MORE_INPUTS, Neighbour, Relation, write_inputs
from convfind.heuristics.ramps import Hinges, Ramps
from convfind.types import Direction

Floats = NDArray[np.float32]

_BLOCK = 2048  # problems per block, so that intermediate values stay in the cache
_ZERO = np.float32(0)
_NOBODY: Mapping[Relation, Neighbour] = {}

#: Scale of an input without effect. Remainders without effect are not computed.
UNSEEN = 1e9


@dataclass(frozen=True)
class Network:
    """A perceptron for some kinds of problems in one direction. Immutable.

    Its inputs are the ramps, the features, and what neighbours add.

    Attributes:
        direction: direction of its problems.
        solvers: versioned id of each output.
        domain: the problems that it was trained on.
        sharpness: turns differences of log times into the odds of being fastest.
        mean, scale: normalisation of the inputs; 0 and 1 for those of neighbours.
        weights: matrix of each layer, (outputs, inputs).
        biases: vector of each layer; in the first layer one per device, (devices, outputs).
        evidence: the relations of the neighbours that it requires, in their order, and the
            versioned ids that it knows in their records.
        ramps: ramps of its features.
    """

    direction: Direction
    solvers: tuple[str, ...]
    domain: Domain
    sharpness: float
    mean: Floats
    scale: Floats
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    evidence: tuple[tuple[Relation, tuple[str, ...]], ...] = ()
    ramps: Ramps = field(default_factory=Ramps.none)

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        """Relations of the neighbours that it requires."""
        return tuple(relation for relation, _ in self.evidence)

    @cached_property
    def _seen(self) -> int:
        """Number of features that have an effect."""
        last = len(self.ramps) + FEATURES
        return FEATURES if (self.scale[last - REMAINDERS : last] < UNSEEN).any() else FORMULAS

    @cached_property
    def _columns(self) -> tuple[tuple[Relation, dict[str, int], int], ...]:
        """For each relation the input indices of its solvers, and the first of the others."""
        found, place = [], len(self._hinges) + self._seen
        for relation, names in self.evidence:
            columns = {name: place + number for number, name in enumerate(names)}
            found.append((relation, columns, place + len(names)))
            place += len(names) + MORE_INPUTS
        return tuple(found)

    @cached_property
    def _matrices(self) -> tuple[tuple[Floats, ...], ...]:
        """For each device all layers except the last, (inputs and 1, outputs).

        A constant input of 1 carries the biases, which saves an addition per layer. The first
        matrix includes the normalisation and the sums of hinges that form ramps.
        """
        return tuple(self._layers(device) for device in range(len(self.biases[0])))

    def _layers(self, device: int) -> tuple[Floats, ...]:
        hinges, sums = self.ramps.hinges()
        first = (self.weights[0] / self.scale).astype(np.float64)
        of_ramps, of_seen, _, of_told = np.split(
            first, np.cumsum([len(self.ramps), self._seen, FEATURES - self._seen]), axis=1
        )
        of_hinges = of_ramps @ sums
        bias = self.biases[0][device] - first @ self.mean - of_hinges @ hinges.knot
        weights = (np.hstack([of_hinges, of_seen, of_told]), *self.weights[1:-1])
        biases = (bias, *self.biases[1:-1])
        return tuple(
            np.vstack([matrix.T, vector]).astype(np.float32)
            for matrix, vector in zip(weights, biases, strict=True)
        )

    @cached_property
    def _hinges(self) -> Hinges:
        return self.ramps.hinges()[0]

    @cached_property
    def _idle(self) -> tuple[list[_Pass], ...]:
        """For each device the passes that no thread is using."""
        return tuple([] for _ in self.biases[0])

    def outputs(self, columns: Iterable[int]) -> Floats:
        """Return the last layer for these solvers only: (solvers, inputs and 1)."""
        chosen = list(columns)
        return np.column_stack([self.weights[-1][chosen], self.biases[-1][chosen]])

    def log_times(
        self,
        row: Sequence[int],
        units: int,
        device: int,
        last: Floats,
        neighbours: Mapping[Relation, Neighbour] = _NOBODY,
    ) -> list[float]:
        """Predict one problem: natural logarithms of milliseconds for the solvers of ``last``."""
        idle = self._idle[device]
        try:
            pass_ = idle.pop()
        except IndexError:
            pass_ = _Pass(self, device)
        found = pass_.log_times(row, units, last, neighbours)
        idle.append(pass_)
        return found

    def batch(
        self, rows: NDArray[np.int32], units: int, device: int, told: Floats | None = None
    ) -> Floats:
        """Predict many problems: (problems, fields) to log times, (problems, solvers).

        ``told`` holds the inputs from neighbours, (problems, inputs), if the network requires them.
        """
        result = np.empty((len(rows), len(self.solvers)), np.float32)
        matrices = self._matrices[device]
        last = self.outputs(range(len(self.solvers)))
        width = -(-len(rows) // max(1, -(-len(rows) // _BLOCK))) or 1  # blocks of equal size
        heights = (*map(len, matrices), last.shape[1], len(last))
        *layers, times = _kept_memory(width, heights)
        for values in layers:
            values[-1] = 1.0
        count, told_from = len(self._hinges), len(self._hinges) + self._seen
        for start in range(0, len(rows), width):
            block = rows[start : start + width]
            inputs = layers[0][:, : len(block)]
            columns = inputs[count:told_from]
            feature_columns(block, units, self.direction, columns)
            if told is not None:
                inputs[told_from:-1] = told[start : start + width].T
            self._hinges.apply(columns, inputs[:count])
            for matrix, values, following in zip(matrices, layers, layers[1:], strict=False):
                hidden = following[:-1]
                np.matmul(matrix.T, values, out=hidden)
                np.maximum(hidden, _ZERO, out=hidden)
            np.matmul(last, layers[-1], out=times)
            found = times[:, : len(block)]
            found += log_work(columns)
            result[start : start + width] = found.T
        return result


def _kept_memory(width: int, heights: Sequence[int]) -> list[Floats]:
    """Return arrays in memory kept by the thread: new pages cost half as much as all products."""
    needed = width * sum(heights)
    memory: Floats | None = getattr(_OF_THREAD, "memory", None)
    if memory is None or len(memory) < needed:
        memory = _OF_THREAD.memory = np.zeros(needed, np.float32)
    parts = np.split(memory[:needed], np.cumsum(heights)[:-1] * width)
    return [part.reshape(height, width) for part, height in zip(parts, heights, strict=True)]


_OF_THREAD = threading.local()


class _Pass:
    """Evaluation of a network for one problem, in memory reused by the next problem.

    New memory for each problem costs as much as a layer.
    """

    __slots__ = (
        *("_bent", "_direction", "_evidence", "_hidden", "_hinges", "_inputs", "_layers"),
        *("_log_macs", "_memory", "_remainders", "_seen", "_told"),
    )

    def __init__(self, network: Network, device: int) -> None:
        matrices = network._matrices[device]
        self._direction = network.direction
        self._remainders = network._seen == FEATURES
        self._hinges = network._hinges
        self._evidence = network._columns
        # Behind what a layer computes there is a 1 for the biases of the next one.
        vectors = [np.ones(len(matrix), np.float32) for matrix in matrices]
        vectors.append(np.ones(matrices[-1].shape[1] + 1, np.float32))
        self._layers = [
            (matrix, values, following[:-1], np.zeros(len(following) - 1, np.float32))
            for matrix, values, following in zip(matrices, vectors, vectors[1:], strict=False)
        ]
        inputs, self._hidden = vectors[0], vectors[-1]
        count = len(self._hinges)
        told_from = count + network._seen
        self._bent, self._seen = inputs[:count], inputs[count:told_from]
        self._told = inputs[told_from:-1]
        self._memory = self._seen.data.cast("B")
        self._inputs: Any = inputs.data  # elements of a view cost half of an array's
        self._log_macs = count + LOG_MACS

    def log_times(
        self,
        row: Sequence[int],
        units: int,
        last: Floats,
        neighbours: Mapping[Relation, Neighbour],
    ) -> list[float]:
        """Predict as `Network.log_times` does."""
        self._memory[:] = features(row, units, self._direction, remainders=self._remainders)
        work = 2.0 ** self._inputs[self._log_macs] / _WORK
        if len(self._bent):
            self._hinges.apply(self._seen, self._bent)
        if self._evidence:
            self._told[:] = 0.0
        for relation, columns, rest in self._evidence:
            near = neighbours[relation]
            write_inputs(near, row[0], columns, rest, work, _LEAST_WORK, self._inputs)
        for matrix, values, hidden, zeros in self._layers:
            values.dot(matrix, hidden)
            np.maximum(hidden, zeros, out=hidden)
        base = math.log(work + _LEAST_WORK)
        return [base + time for time in last.dot(self._hidden).tolist()]


def log_work(columns: Floats, ratio: Floats | None = None) -> Floats:
    """Return the base to which outputs are added, (problems), from features, (features, problems).

    With ratios, the same for multiples of each problem's batch.

    The logarithm of 5e9 multiply-accumulates, and of what a launch costs when there is next to
    nothing to compute.
    """
    work = np.exp2(columns[LOG_MACS]) / np.float32(_WORK)
    if ratio is not None:
        work = work * ratio
    result: Floats = np.log(work + np.float32(_LEAST_WORK))
    return result


_WORK, _LEAST_WORK = 5e9, 0.01
