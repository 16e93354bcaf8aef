"""A small network for the mock solvers, fitted in closed form to times made up for the test."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.heuristics.domain import Domain
from convfind.heuristics.features import feature_columns, sizes
from convfind.heuristics.model_file import Model, ModelDevice, Training, write_model
from convfind.heuristics.neighbours import MORE_INPUTS, Relation
from convfind.heuristics.network import Network, log_work
from convfind.heuristics.ramps import Ramps
from convfind.problem import ConvProblem
from convfind.solver import versioned_id
from convfind.testing import MockBackend, mock_solvers
from convfind.types import Direction

UNITS = 8


def problems(count: int, direction: Direction = Direction.FORWARD) -> list[ConvProblem]:
    """Different problems, the same at every call."""
    generator = np.random.default_rng(7)
    found = []
    for _ in range(count):
        batch, channels, filters, size = generator.integers(1, 20, 4).tolist()
        window, pad = int(generator.choice([1, 3, 5])), int(generator.integers(0, 2))
        found.append(
            ConvProblem.create(
                direction,
                (batch, channels, size + 5, size + 5),
                (filters, channels, window, window),
                padding=pad,
                dtype=str(generator.choice(["float32", "float16"])),
            )
        )
    return found


def with_evidence(network: Network, *relations: Relation) -> Network:
    """The same network, told of neighbours: a solver that is fast there is expected to be faster.

    Only where a neighbour is. Its weights go past the hidden layer, through units of their own.
    """
    ids = network.solvers
    first, last = network.weights
    told = (len(ids) + MORE_INPUTS) * len(relations)
    units = np.zeros((len(ids) * len(relations), len(network.mean) + told), np.float32)
    for number in range(len(relations)):
        for place in range(len(ids)):
            units[
                number * len(ids) + place,
                len(network.mean) + number * (len(ids) + MORE_INPUTS) + place,
            ] = 1.0
    faster = -4.0 * np.tile(np.eye(len(ids), dtype=np.float32), len(relations))
    bias, *others = network.biases
    return dataclasses.replace(
        network,
        mean=np.pad(network.mean, (0, told)),
        scale=np.pad(network.scale, (0, told), constant_values=1.0),
        weights=(
            np.vstack([np.pad(first, ((0, 0), (0, told))), units]),
            np.hstack([last, faster]),
        ),
        biases=(np.pad(bias, ((0, 0), (0, len(units)))), *others),
        evidence=tuple((relation, ids) for relation in relations),
    )


def fitted(ids: tuple[str, ...], seed: int = 0) -> Network:
    """A layer of random units, and the least-squares layer on it that knows each solver's law."""
    direction = Direction.FORWARD
    rows = np.array([sizes(problem) for problem in problems(400)], np.int32)
    columns = feature_columns(rows, UNITS, direction)
    ramps = Ramps.of(columns)
    inputs = np.vstack([ramps.of_columns(columns), columns])
    mean, scale = inputs.mean(axis=1), inputs.std(axis=1)
    scale[scale < 1e-5] = 1.0
    normal = (inputs - mean[:, None]) / scale[:, None]
    generator = np.random.default_rng(seed)
    first = (generator.standard_normal((48, len(mean))) / 8).astype(np.float32)
    bias = generator.standard_normal(48).astype(np.float32)
    hidden = np.maximum(first @ normal + bias[:, None], 0.0)
    # Each solver has a rate and a cost of starting: which is best depends on the problem.
    work = np.exp(log_work(columns))
    laws = np.array(
        [np.log(0.02 * (place + 1) + work * 50 / (place + 1)) for place in range(len(ids))]
    )
    wanted = (laws - log_work(columns)).T
    augmented = np.vstack([hidden, np.ones(len(rows))]).T
    solved = np.linalg.lstsq(augmented, wanted, rcond=None)[0].astype(np.float32)
    return Network(
        direction,
        ids,
        Domain.of(rows),
        6.0,
        mean,
        scale,
        (first, np.ascontiguousarray(solved[:-1].T, np.float32)),
        (bias[None, :], solved[-1]),
        ramps=ramps,
    )


@pytest.fixture
def backend() -> MockBackend:
    """The mock device that models are for."""
    return MockBackend()


@pytest.fixture
def make_model(tmp_path: Path, backend: MockBackend) -> Callable[..., Path]:
    """Write a model of the mock solvers, or of the versioned ids given, into a file."""

    def make(*ids: str, **changes: Any) -> Path:
        known = tuple(versioned_id(s) for s in mock_solvers() if not s.is_last_resort)
        identity = changes.pop("identity", backend.open().target.identity)
        device = ModelDevice(identity=identity, compute_units=UNITS)
        network = fitted(ids or known)
        path = tmp_path / "model.npz"
        write_model(path, Model((device,), (network,), Training(seed=3)))
        return path

    return make
