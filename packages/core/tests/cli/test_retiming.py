"""Solutions are timed again while nobody else measures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from convfind.cli.retiming import retime
from convfind.handle.opening import handle_for
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing import MockBackend


def test_it_waits_while_a_find_measures(shell: Any, tmp_path: Path) -> None:
    registry: Registry = shell.registry()
    problem = ConvProblem.forward((1, 2, 4, 4), (2, 2, 1, 1))
    with (
        handle_for(MockBackend().open(), registry, Settings(user_db_path=tmp_path)) as handle,
        ThreadPoolExecutor(1) as thread,
    ):
        best = handle.find(problem).best
        with handle.session.turn:
            job = thread.submit(retime, handle, problem, best, iterations=2, seconds=None)
            with pytest.raises(TimeoutError):
                job.result(0.1)
        assert len(job.result().samples) == 2
