"""A network of a model: features to the logarithm of each solver's time, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import gt, lt
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convfind.heuristics.features import FEATURES, LOG_MACS, SIZES, feature_columns, features
from convfind.heuristics.neighbours import MORE_INPUTS, Neighbour, Relation, write_inputs
from convfind.heuristics.ramps import Hinges, Ramps
from convfind.types import DataType, Direction

Floats = NDArray[np.float32]

_BLOCK = 1024  # rows of a batch whose intermediate values stay in the cache
_ZERO = np.float32(0)
_PACK = Struct(f"{FEATURES}f")
_KIND = SIZES.index("spatial_rank")
_NOBODY: Mapping[Relation, Neighbour] = {}


@dataclass(frozen=True, slots=True)
class Domain:
    """The problems that a network was trained on.

    Attributes:
        low: smallest value of each field of `SIZES` before the spatial rank.
        high: largest one.
        kinds: the combinations of the other fields: rank, data type and layouts.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    kinds: frozenset[tuple[int, ...]]

    @classmethod
    def of(cls, rows: NDArray[np.int32]) -> Domain:
        """The least domain that holds these problems: (problems, fields)."""
        ranged = rows[:, :_KIND]
        return cls(
            tuple(ranged.min(axis=0).tolist()),
            tuple(ranged.max(axis=0).tolist()),
            frozenset(map(tuple, np.unique(rows[:, _KIND:], axis=0).tolist())),
        )

    def refusal(self, row: Sequence[int]) -> str | None:
        """Say what about a problem of these kinds is outside, None where nothing is."""
        if any(map(lt, row, self.low)) or any(map(gt, row, self.high)):
            name, value, low, high = next(
                fields
                for fields in zip(SIZES, row, self.low, self.high, strict=False)
                if not fields[2] <= fields[1] <= fields[3]
            )
            return f"{name} {value} is outside the range of training, {low} to {high}"
        return None


def kind_of(row: Sequence[int]) -> tuple[int, ...]:
    """Rank, data type and layouts from the `sizes` of a problem."""
    return tuple(row[_KIND:])


def kind_text(row: Sequence[int]) -> str:
    """The same in words."""
    rank, dtype, *last = row[_KIND:]
    layouts = " ".join(
        f"{name} channels {'last' if flag else 'first'}"
        for name, flag in zip("xwy", last, strict=True)
    )
    return f"{rank}-D {tuple(DataType)[dtype]} with {layouts}"


@dataclass(frozen=True)
class Network:
    """A perceptron for some kinds of problems in one direction. Immutable.

    Its inputs are the ramps, the features, and what neighbours add.

    Attributes:
        direction: of its problems.
        solvers: versioned id of each output.
        domain: what it was trained on.
        sharpness: turns differences of log times into the odds of being fastest.
        mean, scale: normalisation of the inputs; of what neighbours add 0 and 1.
        weights: matrix of each layer, (outputs, inputs).
        biases: vector of each layer; of the first layer one for each device, (devices, outputs).
        evidence: the relations of the neighbours that it must be told of, in their order, and the
            versioned ids that it knows in their records.
        ramps: of its features.
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
        """Of the neighbours that it must be told of."""
        return tuple(relation for relation, _ in self.evidence)

    @cached_property
    def _columns(self) -> tuple[tuple[Relation, dict[str, int], int], ...]:
        """Of each relation the inputs of its solvers, and the first of the others."""
        found, place = [], len(self._hinges) + FEATURES
        for relation, names in self.evidence:
            columns = {name: place + number for number, name in enumerate(names)}
            found.append((relation, columns, place + len(names)))
            place += len(names) + MORE_INPUTS
        return tuple(found)

    @cached_property
    def _matrices(self) -> tuple[tuple[Floats, ...], ...]:
        """For each device the layers but the last, in homogeneous coordinates.

        A last input that is always 1 carries the biases, and a last output of 1 hands it on: an
        addition less in each layer. The normalisation is in the first matrix, and that ramps are
        sums of hinges.
        """
        return tuple(self._layers(device) for device in range(len(self.biases[0])))

    def _layers(self, device: int) -> tuple[Floats, ...]:
        first, count = self.weights[0] / self.scale, len(self.ramps)
        bias = self.biases[0][device] - first @ self.mean
        _, sums = self.ramps.hinges()
        weights = (np.hstack([first[:, :count] @ sums, first[:, count:]]), *self.weights[1:-1])
        biases = (bias, *self.biases[1:-1])
        return tuple(map(_homogeneous, weights, biases))

    @cached_property
    def _hinges(self) -> Hinges:
        return self.ramps.hinges()[0]

    @cached_property
    def _zeros(self) -> tuple[Floats, ...]:
        """What the outputs of each layer but the last are compared with."""
        return tuple(np.zeros(len(weights) + 1, np.float32) for weights in self.weights[:-1])

    def outputs(self, columns: Iterable[int]) -> Floats:
        """The last layer, for these solvers only."""
        chosen = list(columns)
        return _homogeneous(self.weights[-1][chosen], self.biases[-1][chosen])[:-1]

    def log_times(
        self,
        row: Sequence[int],
        units: int,
        device: int,
        last: Floats,
        neighbours: Mapping[Relation, Neighbour] = _NOBODY,
    ) -> list[float]:
        """Predict one problem: natural logarithms of milliseconds for the solvers of ``last``."""
        values = features(row, units, self.direction)
        work = 2.0 ** values[LOG_MACS] / _WORK
        matrices, hinges = self._matrices[device], self._hinges
        hidden: Floats = np.zeros(matrices[0].shape[1], np.float32)
        inputs: Any = hidden.data  # elements of a view cost half of an array's
        count = len(hinges)
        _PACK.pack_into(inputs, 4 * count, *values)
        if count:
            hinges.apply(hidden[count:], hidden[:count])
        for relation, columns, rest in self._columns:
            near = neighbours[relation]
            write_inputs(near, row[0], columns, rest, work, _LEAST_WORK, inputs)
        inputs[-1] = 1.0
        for matrix, zeros in zip(matrices, self._zeros, strict=True):
            hidden = matrix.dot(hidden)
            np.maximum(hidden, zeros, out=hidden)
        base = math.log(work + _LEAST_WORK)
        return [base + time for time in last.dot(hidden).tolist()]

    def batch(
        self, rows: NDArray[np.int32], units: int, device: int, told: Floats | None = None
    ) -> Floats:
        """Predict many problems: (problems, fields) to log times, (problems, solvers).

        ``told`` is what neighbours add, (problems, inputs), where the network must be told.
        """
        result = np.empty((len(rows), len(self.solvers)), np.float32)
        matrices = (*self._matrices[device], self.outputs(range(len(self.solvers))))
        # Fresh memory costs as much as the products: all blocks use the same.
        width = min(_BLOCK, len(rows))
        values = [np.empty((len(matrix), width), np.float32) for matrix in matrices]
        inputs = np.ones((matrices[0].shape[1], width), np.float32)
        count = len(self._hinges)
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            columns = inputs[count:-1, : len(block)]
            found = feature_columns(block, units, self.direction)
            columns[: len(found)] = found
            if told is not None:
                columns[len(found) :] = told[start : start + _BLOCK].T
            self._hinges.apply(columns, inputs[:count, : len(block)])
            current = inputs
            for matrix, following in zip(matrices, values, strict=True):
                if current is not inputs:
                    np.maximum(current, _ZERO, out=current)
                current = np.matmul(matrix, current, out=following)
            times = current[:, : len(block)]
            times += log_work(columns)
            result[start : start + _BLOCK] = times.T
        return result


def _homogeneous(weights: Floats, biases: Floats) -> Floats:
    """Join weights and biases, with a last row that hands the 1 on."""
    outputs, inputs = weights.shape
    matrix = np.zeros((outputs + 1, inputs + 1), np.float32)
    matrix[:outputs, :inputs] = weights
    matrix[:outputs, inputs] = biases
    matrix[outputs, inputs] = 1.0
    return matrix


def log_work(columns: Floats, ratio: Floats | None = None) -> Floats:
    """What outputs are added to, (problems), from the features, (features, problems).

    With ratios: the same for so many batches of each problem.

    The logarithm of 5e9 multiply-accumulates, and of what a launch costs when there is next to
    nothing to compute.
    """
    work = np.exp2(columns[LOG_MACS]) / np.float32(_WORK)
    if ratio is not None:
        work = work * ratio
    result: Floats = np.log(work + np.float32(_LEAST_WORK))
    return result


_WORK, _LEAST_WORK = 5e9, 0.01
