"""What find enforce adds to a mode."""

from __future__ import annotations

from typing import Any

import pytest

from convfind.errors import SettingsError
from convfind.find.result import FindResult
from convfind.policy import FindEnforce
from convfind.problem import ConvProblem


def test_none_changes_nothing(bench: Any, problem: ConvProblem) -> None:
    bench.open("mock-dynamic").find(problem)
    assert bench.open("mock-dynamic").find(problem, enforce="NONE").measured == 0


def test_db_update_measures_again_and_replaces_what_it_measured(
    bench: Any, problem: ConvProblem
) -> None:
    handle = bench.open("mock-dynamic")
    handle.find(problem)
    bench.backend.faults.slowdown = 3.0
    assert bench.open("mock-dynamic").find(problem).best.time_ms == pytest.approx(0.1)
    assert bench.open("mock-dynamic").find(problem, enforce="DB_UPDATE").measured == 1
    assert bench.open("mock-dynamic").find(problem, "FAST").best.time_ms == pytest.approx(0.3)


def test_db_update_forgets_a_solver_that_fails_now(bench: Any, problem: ConvProblem) -> None:
    names = ("mock-dynamic", "mock-packing")
    bench.open(*names).find(problem)
    bench.backend.faults.launch = lambda launch: launch.kernel.entry == "mock_pack"
    bench.open(*names).find(problem, enforce="DB_UPDATE")
    hit = bench.open(*names).find(problem, "FAST")
    assert [s.solver for s in hit.solutions] == ["mock-dynamic"]


_NARROW: dict[str, dict[str, Any]] = {
    "by name": {"solvers": ["mock-dynamic"]},
    "by algorithm": {"algorithms": ["gemm"]},
    "without one": {"deny": ["mock-packing"]},
    "dynamic only": {"dynamic_only": True},
    "little time": {"time_budget": 0.0},
    "little workspace": {"workspace_limit": 0},
    "constant weights": {"constant_weights": True},
}
_RICH = ("mock-hungry", "mock-packing", "mock-tunable", "mock-static", "mock-dynamic")


_BY_FILTER = ("by name", "by algorithm", "without one")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("narrow", "enforce"),
    [
        (narrow, enforce)
        for narrow in _NARROW
        for enforce in FindEnforce.__members__
        # Without a filter it forgets everything, as it was asked to.
        if enforce != "DB_CLEAN" or narrow in _BY_FILTER
    ],
)
def test_a_narrow_find_neither_hides_nor_removes_richer_records(
    bench: Any, problem: ConvProblem, narrow: str, enforce: str
) -> None:
    rich = bench.open(*_RICH).find(problem, "HYBRID", enforce="SEARCH")
    bench.open(*_RICH).find(problem, "HYBRID", enforce=enforce, **_NARROW[narrow])
    after = bench.open(*_RICH).find(problem, "HYBRID", race=False)
    if enforce == "DB_CLEAN":  # forgot the tuned config of what it let through
        assert {s.solver for s in after.solutions} == {s.solver for s in rich.solutions}
    else:
        assert after.measured == 0
        assert _times(after) == pytest.approx(_times(rich))
    fresh = bench.open(*_RICH).find(problem, "HYBRID", constant_weights=True, race=False)
    assert {s.solver for s in fresh.solutions} == {s.solver for s in rich.solutions}


def _times(found: FindResult) -> dict[str, float]:
    return {solution.solver: solution.signed_ms for solution in found.solutions}


def test_a_tuning_that_was_cut_short_is_not_taken_for_a_whole_one(
    bench: Any, problem: ConvProblem
) -> None:
    bench.open("mock-tunable").find(problem, enforce="SEARCH", time_budget=0.0)
    found = bench.open("mock-tunable").find(problem, enforce="SEARCH")
    assert found.best.time_ms == pytest.approx(0.05)
    bench.open("mock-tunable").find(problem, enforce="SEARCH_DB_UPDATE", time_budget=0.0)
    assert bench.open("mock-tunable").find(problem).best.time_ms == pytest.approx(0.05)


def test_search_tunes_and_the_config_is_used_later(bench: Any, problem: ConvProblem) -> None:
    found = bench.open("mock-tunable").find(problem, enforce="SEARCH")
    assert found.best.time_ms == pytest.approx(0.05)
    handle = bench.open("mock-tunable")
    solver = handle.registry.solver("mock-tunable")
    config = handle.database.config(handle.target, problem, "mock-tunable", solver.version)
    assert config is not None
    assert config["tile"] == 8
    again = bench.open("mock-tunable").find(problem, "NORMAL")
    assert again.best.time_ms == pytest.approx(0.05)


def test_search_keeps_a_recorded_config_and_search_db_update_does_not(
    bench: Any, problem: ConvProblem
) -> None:
    bench.open("mock-tunable").find(problem, enforce="SEARCH")
    compiles = bench.backend.counters.compiles
    bench.open("mock-tunable").find(problem, enforce="SEARCH")
    assert bench.backend.counters.compiles == compiles
    launches = bench.backend.counters.launches
    bench.open("mock-tunable").find(problem, enforce="SEARCH_DB_UPDATE")
    assert bench.backend.counters.launches > launches + 4 * 3


def test_db_clean_forgets_records_and_tuned_configs(bench: Any, problem: ConvProblem) -> None:
    bench.open("mock-tunable").find(problem, enforce="SEARCH")
    found = bench.open("mock-tunable").find(problem, enforce="DB_CLEAN")
    assert found.best.time_ms == pytest.approx(0.4)


def test_the_environment_sets_the_default(bench: Any, problem: ConvProblem) -> None:
    bench.open("mock-dynamic").find(problem)
    handle = bench.open("mock-dynamic", find_enforce=FindEnforce.DB_UPDATE)
    assert handle.find(problem).measured == 1


def test_unknown_words_are_refused(bench: Any, problem: ConvProblem) -> None:
    with pytest.raises(SettingsError, match="SEARCH_DB_UPDATE or 4"):
        bench.open("mock-dynamic").find(problem, enforce="CLEAN_DB")
