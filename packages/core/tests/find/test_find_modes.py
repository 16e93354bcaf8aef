"""Every mode does what the table of modes says, shown by counters."""

from __future__ import annotations

from typing import Any

import pytest

from convfind.device.target import Target
from convfind.errors import SettingsError
from convfind.find.result import FindOrigin
from convfind.find.solution import TimeOrigin
from convfind.policy import FindMode
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.testing import MockSolver

ALL = ["mock-packing", "mock-static", "mock-dynamic", "mock-last-resort"]


def test_normal_measures_every_applicable_solver_each_time(
    bench: Any, problem: ConvProblem
) -> None:
    handle = bench.open(*ALL)
    for _ in range(2):
        found = handle.find(problem, "NORMAL")
        assert found.origin is FindOrigin.MEASURED
        assert found.measured == 3
        assert [s.solver for s in found.solutions] == [
            "mock-static",
            "mock-packing",
            "mock-dynamic",
        ]
        assert all(s.time_origin is TimeOrigin.MEASURED for s in found.solutions)
        assert found.rejected["mock-last-resort"].reason is Reason.LAST_RESORT


def test_normal_stores_for_later_finds(bench: Any, problem: ConvProblem) -> None:
    bench.open(*ALL).find(problem, "NORMAL")
    found = bench.open(*ALL).find(problem, "HYBRID")
    assert (found.origin, found.measured, found.compiled) == (FindOrigin.USER_DB, 0, 0)


def test_a_hit_returns_all_recorded_solutions(bench: Any, problem: ConvProblem) -> None:
    measured = bench.open(*ALL).find(problem, "NORMAL")
    hit = bench.open(*ALL).find(problem, "FAST")
    assert [s.solver for s in hit.solutions] == [s.solver for s in measured.solutions]
    assert [s.time_ms for s in hit.solutions] == [s.time_ms for s in measured.solutions]


def test_fast_estimates_on_a_miss_and_runs_nothing(bench: Any, problem: ConvProblem) -> None:
    found = bench.open(*ALL).find(problem, "FAST")
    assert found.origin is FindOrigin.FALLBACK
    assert (found.measured, found.compiled, bench.backend.counters.launches) == (0, 0, 0)
    assert all(s.time_ms is None for s in found.solutions)
    assert found.best.solver == "mock-dynamic"
    assert found.best.time_origin is TimeOrigin.WTI


def test_hybrid_measures_all_on_a_miss(bench: Any, problem: ConvProblem) -> None:
    found = bench.open(*ALL).find(problem, "HYBRID")
    assert found.measured == 3
    again = bench.open(*ALL).find(problem, "HYBRID")
    assert (again.measured, again.compiled, again.origin) == (0, 0, FindOrigin.USER_DB)


def test_dynamic_hybrid_is_the_default_and_skips_static_solvers(
    bench: Any, problem: ConvProblem
) -> None:
    found = bench.open(*ALL).find(problem)
    assert found.mode == "DYNAMIC_HYBRID"
    assert {s.solver for s in found.solutions} == {"mock-packing", "mock-dynamic"}
    assert found.rejected["mock-static"].reason is Reason.NOT_DYNAMIC
    assert bench.open(*ALL).find(problem).measured == 0


def test_hybrid_measures_only_what_a_dynamic_search_left_out(
    bench: Any, problem: ConvProblem
) -> None:
    bench.open(*ALL).find(problem, "DYNAMIC_HYBRID")
    found = bench.open(*ALL).find(problem, "HYBRID")
    assert found.measured == 1
    assert [s.solver for s in found.solutions] == ["mock-static", "mock-packing", "mock-dynamic"]
    assert bench.open(*ALL).find(problem, "HYBRID").measured == 0


def test_a_newly_installed_solver_is_measured_once(bench: Any, problem: ConvProblem) -> None:
    bench.open("mock-dynamic").find(problem)
    found = bench.open("mock-dynamic", "mock-packing").find(problem)
    assert (found.measured, found.best.solver) == (1, "mock-packing")
    assert bench.open("mock-dynamic", "mock-packing").find(problem).measured == 0


class Refusing(MockSolver):
    """Takes nothing, and counts how often it is asked."""

    is_dynamic = True

    def __init__(self, solver_id: str) -> None:
        self.solver_id = solver_id
        self.asked = 0

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        self.asked += 1
        return Rejected(Reason.LAYOUT, "none suits")


def test_a_newly_installed_solver_that_refuses_costs_one_question(
    bench: Any, problem: ConvProblem
) -> None:
    old, new = Refusing("mock-refusing"), Refusing("mock-refusing-too")
    bench.open("mock-dynamic", extra=[old]).find(problem)
    asked = old.asked
    found = bench.open("mock-dynamic", extra=[old, new]).find(problem)
    assert (found.measured, found.best.solver) == (0, "mock-dynamic")
    assert (old.asked - asked, new.asked) == (0, 1)


def test_trust_verify_runs_the_winner_once_and_trusts_it(bench: Any, problem: ConvProblem) -> None:
    bench.open(*ALL).find(problem, "NORMAL")
    found = bench.open(*ALL).find(problem, "TRUST_VERIFY")
    assert (found.origin, found.measured) == (FindOrigin.USER_DB, 1)
    assert len(found.solutions) == 3


def test_trust_verify_full_runs_every_recorded_solution(bench: Any, problem: ConvProblem) -> None:
    bench.open(*ALL).find(problem, "NORMAL")
    found = bench.open(*ALL).find(problem, "TRUST_VERIFY_FULL")
    assert (found.origin, found.measured) == (FindOrigin.USER_DB, 3)


def test_trust_verify_finds_anew_where_the_winner_got_slower(
    bench: Any, problem: ConvProblem
) -> None:
    bench.open(*ALL).find(problem, "NORMAL")
    bench.backend.faults.slowdown = 1.5
    found = bench.open(*ALL).find(problem, "TRUST_VERIFY")
    assert found.origin is FindOrigin.MEASURED
    assert found.measured == 1 + 3
    assert found.best.time_ms == pytest.approx(0.09)
    bench.backend.faults.slowdown = 1.0
    assert bench.open(*ALL).find(problem, "FAST").best.time_ms == pytest.approx(0.09)


def test_trust_verify_tolerates_as_much_as_the_policy_says(
    bench: Any, problem: ConvProblem
) -> None:
    bench.open(*ALL).find(problem, "NORMAL")
    bench.backend.faults.slowdown = 1.5
    found = bench.open(*ALL).find(problem, "TRUST_VERIFY", tolerance=0.6)
    assert (found.origin, found.measured) == (FindOrigin.USER_DB, 1)


def test_trust_verify_tunes_on_a_miss(bench: Any, problem: ConvProblem) -> None:
    found = bench.open("mock-tunable").find(problem, "TRUST_VERIFY")
    assert found.best.time_ms == pytest.approx(0.05)
    assert found.best.config is not None
    assert found.best.config["tile"] == 8


@pytest.mark.parametrize("mode", FindMode)
@pytest.mark.parametrize("spelling", [str.lower, str.upper, str.title])
def test_mode_words_in_any_case_and_numbers_work(mode: FindMode, spelling: Any) -> None:
    assert FindMode.parse(spelling(mode.name), "mode") is mode
    assert FindMode.parse(str(mode.value), "mode") is mode
    assert FindMode.parse(int(mode), "mode") is mode


@pytest.mark.parametrize("value", ["4", 4, "nonsense", "", "5abc", "8", "-1"])
def test_illegal_modes_are_refused_naming_the_legal_ones(
    bench: Any, problem: ConvProblem, value: object
) -> None:
    handle = bench.open("mock-dynamic")
    with pytest.raises(SettingsError, match=r"DYNAMIC_HYBRID or 5.*TRUST_VERIFY_FULL or 7"):
        handle.find(problem, value)
