"""Handles on a mock device with any set of solvers, on a database in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.solver import Solver
from convfind.testing import MockBackend, mock_solvers

PROBLEM = ConvProblem.forward(x=(2, 4, 6, 6), w=(8, 4, 3, 3), padding=1)


class Bench:
    """Makes handles that share one folder, as processes of one user do."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.backend = MockBackend()

    def open(self, *ids: str, extra: Sequence[Solver] = (), **settings: Any) -> Handle:
        """Open a handle with the mock solvers of these ids (all of them without any)."""
        chosen = [s for s in mock_solvers() if not ids or s.solver_id in ids]
        registry = Registry.build([_Plugin([*extra, *chosen])], load_entry_points=False)
        configured = Settings(user_db_path=self.folder, **settings)
        return self._stack.enter_context(handle_for(self.backend.open(), registry, configured))


class _Plugin:
    def __init__(self, solvers: Sequence[Solver]) -> None:
        self._solvers = solvers

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend(self._solvers)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A fresh folder and mock backend."""
    with ExitStack() as stack:
        yield Bench(tmp_path, stack)


@pytest.fixture
def problem() -> ConvProblem:
    """A small forward convolution."""
    return PROBLEM


@pytest.fixture
def tensors() -> dict[str, np.ndarray[Any, Any]]:
    """Data and weights of `problem`."""
    generator = np.random.default_rng(1)
    return {
        "x": generator.standard_normal((2, 4, 6, 6)).astype(np.float32),
        "w": generator.standard_normal((8, 4, 3, 3)).astype(np.float32),
    }
