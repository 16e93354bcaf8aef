"""What find enforce adds to a mode."""

from __future__ import annotations

from typing import Any

import pytest

from convfind.errors import SettingsError
from convfind.policy import FindEnforce
from convfind.problem import ConvProblem


def test_none_changes_nothing(bench: Any, problem: ConvProblem) -> None:
    bench.open("mock-dynamic").find(problem)
    assert bench.open("mock-dynamic").find(problem, enforce="NONE").measured == 0


def test_db_update_measures_again_and_replaces_the_entry(bench: Any, problem: ConvProblem) -> None:
    bench.open("mock-dynamic", "mock-packing").find(problem)
    found = bench.open("mock-dynamic").find(problem, enforce="DB_UPDATE")
    assert found.measured == 1
    hit = bench.open("mock-dynamic", "mock-packing").find(problem, "FAST")
    assert [s.solver for s in hit.solutions] == ["mock-dynamic"]


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
