"""Models in immediate mode: who answers, and that limits and refusals are never passed over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from convfind.cli import build_program
from convfind.find.solution import TimeOrigin
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.heuristics import HeuristicWarning, TrainedHeuristic
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing import MockBackend, MockSolver, mock_solvers

from .conftest import problems

Make = Callable[..., Path]

PROBLEM = ConvProblem.forward(x=(2, 4, 8, 8), w=(8, 4, 3, 3), padding=1)


class Plugin:
    """The mock solvers, and a heuristic for each model file."""

    def __init__(self, backend: MockBackend, *paths: Path) -> None:
        self._backend = backend
        self._paths = paths

    @hookimpl
    def convfind_register_backends(self, register: Any) -> None:
        register.add(self._backend)

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend(mock_solvers())

    @hookimpl
    def convfind_register_heuristics(self, register: Any) -> None:
        register.extend(
            TrainedHeuristic(f"model-{number}", path) for number, path in enumerate(self._paths)
        )


def open_handle(backend: MockBackend, folder: Path, *paths: Path) -> Handle:
    registry = Registry.build([Plugin(backend, *paths)], load_entry_points=False)
    assert registry.failures == ()
    return handle_for(backend.open(), registry, Settings(user_db_path=folder))


def test_the_model_decides(make_model: Make, backend: MockBackend, tmp_path: Path) -> None:
    with open_handle(backend, tmp_path / "db", make_model()) as handle:
        found = handle.find(PROBLEM, "FAST")
        assert found.best.time_origin is TimeOrigin.PREDICTED
        assert found.best.time_ms is None
        assert found.best.confidence is not None


def test_a_damaged_model_leaves_it_to_the_next_fallback(
    make_model: Make, backend: MockBackend, tmp_path: Path
) -> None:
    path = make_model()
    path.write_bytes(b"PK\3\4 and no archive")
    with open_handle(backend, tmp_path / "db", path) as handle:
        with pytest.warns(HeuristicWarning):
            best = handle.find(PROBLEM, "FAST").best
        assert best.time_origin is TimeOrigin.WTI
        assert handle.find(PROBLEM, "FAST").best == best  # and warns no more


def test_a_model_that_does_not_apply_leaves_it_to_the_next(
    make_model: Make, backend: MockBackend, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.npz"
    make_model(identity="another|device").rename(elsewhere)
    with open_handle(backend, tmp_path / "db", elsewhere, make_model()) as handle:
        assert handle.find(PROBLEM, "FAST").best.time_origin is TimeOrigin.PREDICTED
        advice = handle.explain(PROBLEM).advice
        assert advice.heuristic == "model-1"
        assert advice.refusals[0][0] == "model-0"


def test_no_inapplicable_solver_and_none_over_the_limit_is_ever_picked(
    make_model: Make, backend: MockBackend, tmp_path: Path
) -> None:
    asked = problems(200)

    @settings(max_examples=100, deadline=None)
    @given(
        number=st.integers(0, len(asked) - 1),
        limit=st.none() | st.integers(0, 1 << 16),
        deny=st.sets(st.sampled_from([solver.solver_id for solver in mock_solvers()]), max_size=2),
    )
    def check(number: int, limit: int | None, deny: set[str]) -> None:
        problem = asked[number]
        found = handle.find(problem, "FAST", workspace_limit=limit, deny=deny)
        for solution in found.solutions:
            solver = handle.registry.solver(solution.solver)
            assert solver.takes(problem, handle.target)
            assert solution.solver not in deny
            need = solver.workspace_size(problem, handle.target, limit)
            assert solution.over_limit == (limit is not None and need > limit)
        within = [solution for solution in found.solutions if not solution.over_limit]
        if within:
            assert found.best == within[0]
            origins = {solution.time_origin for solution in within}
            assert TimeOrigin.PREDICTED not in origins or (
                found.best.time_origin is TimeOrigin.PREDICTED
            )

    with open_handle(backend, tmp_path / "db", make_model()) as handle:
        check()


def test_explain_shows_ranking_times_and_reasons(
    make_model: Make, backend: MockBackend, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.npz"
    make_model(identity="another|device").rename(elsewhere)
    plugin = Plugin(backend, elsewhere, make_model())
    registry = Registry.build([plugin], load_entry_points=False)
    configured = Settings(user_db_path=tmp_path / "db")
    words = ["explain", "--x", "2,4,8,8", "--w", "8,4,3,3", "--padding", "1", "--mode", "FAST"]
    document = json.loads(
        CliRunner().invoke(build_program(registry, configured), [*words, "--json"]).stdout
    )
    assert document["heuristic"] == "model-1"
    assert "trained for another|device" in document["heuristics_refused"]["model-0"]
    predicted = [row["predicted"] for row in document["solvers"] if row["predicted"]]
    assert sorted(row["rank"] for row in predicted) == list(range(1, len(predicted) + 1))
    assert sum(row["confidence"] for row in predicted) == pytest.approx(1.0)
    text = CliRunner().invoke(build_program(registry, configured), words).stdout
    assert "model    model-1" in text
    assert "model-0 does not apply: trained for another|device" in text
    assert "predicted ms" in text


class Unknown(MockSolver):
    """A solver that no model has seen."""

    solver_id = "mock-unknown"
    is_dynamic = True


def test_a_newly_installed_solver_is_not_ranked_behind_unseen(
    make_model: Make, backend: MockBackend, tmp_path: Path
) -> None:
    class Newcomer(Plugin):
        @hookimpl
        def convfind_register_solvers(self, register: Any) -> None:
            register.extend([Unknown(), *mock_solvers()])

    registry = Registry.build([Newcomer(backend, make_model())], load_entry_points=False)
    with handle_for(backend.open(), registry, Settings(user_db_path=tmp_path)) as handle:
        assert handle.find(PROBLEM, "FAST").best.time_origin is TimeOrigin.WTI
        ((_, reason),) = handle.explain(PROBLEM).advice.refusals
        assert "mock-unknown" in reason
