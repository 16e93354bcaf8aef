"""A find database of a device whose times follow known laws, for a training that takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry, FindRecord
from convfind.problem import ConvProblem
from convfind.solver import Solver, versioned_id
from convfind.testing import MockBackend, mock_solvers

torch = pytest.importorskip("torch", reason="training needs PyTorch")
torch.set_num_threads(1)  # networks this small gain nothing from more, and tests run side by side


@pytest.fixture
def backend() -> MockBackend:
    return MockBackend()


def applicable(problem: ConvProblem, target: Target) -> list[Solver]:
    """The solvers that a dynamic-only search would measure."""
    return [
        solver
        for solver in mock_solvers()
        if solver.is_dynamic and not solver.is_last_resort and solver.takes(problem, target)
    ]


def law(solver: Solver, problem: ConvProblem) -> float:
    """Milliseconds: solvers with a good rate start slowly, and lose by remainders of 8."""
    place = [known.solver_id for known in mock_solvers()].index(solver.solver_id)
    waste = -(-problem.w_shape[0] // 8) * 8 / problem.w_shape[0] if place % 2 else 1.0
    return float(0.003 * 4**place + waste * problem.macs / (2e8 * 2**place))


def random_problems(count: int, seed: int) -> list[ConvProblem]:
    generator = np.random.default_rng(seed)
    found: list[ConvProblem] = []
    while len(found) < count:
        channels, filters = (int(2 ** generator.uniform(2, 7)) for _ in range(2))
        size = int(generator.integers(7, 40))
        window = int(generator.choice([1, 3]))
        for batch in (1, 4, 16):
            found.append(
                ConvProblem.forward(
                    (batch, channels, size, size),
                    (filters, channels, window, window),
                    padding=window // 2,
                )
            )
    return found[:count]


def fill(folder: Path, count: int, seed: int, device: str = "") -> Path:
    """Write a database of problems with the times of the law, of the mock device or another."""
    target = MockBackend().open().target
    target = replace(target, identity=device or target.identity)
    with FindDb.open(folder) as database:
        for problem in random_problems(count, seed):
            solvers = applicable(problem, target)
            records = tuple(
                FindRecord(
                    solver=solver.solver_id,
                    solver_version=solver.version,
                    package="mock 1",
                    algorithm=solver.algorithm.value,
                    time_ms=law(solver, problem),
                )
                for solver in solvers
            )
            entry = FindEntry(records=records, considered=tuple(map(versioned_id, solvers)))
            database.store(target, problem, entry)
    return folder


@pytest.fixture
def measured(tmp_path: Path) -> Callable[[str, int, int], Path]:
    """Return a function that fills a database and gives its folder."""
    return lambda name, count, seed: fill(tmp_path / name, count, seed)
