"""The workspace limit on a miss, on a hit and in the fallback."""

from __future__ import annotations

from typing import Any

from convfind.problem import ConvProblem
from convfind.reasons import Reason

NAMES = ("mock-hungry", "mock-dynamic", "mock-last-resort")


def test_on_a_miss_what_does_not_fit_is_not_run(bench: Any, problem: ConvProblem) -> None:
    found = bench.open(*NAMES).find(problem, workspace_limit=0)
    assert found.best.solver == "mock-dynamic"
    assert found.rejected["mock-hungry"].reason is Reason.WORKSPACE


def test_a_limited_search_does_not_hide_the_rest(bench: Any, problem: ConvProblem) -> None:
    bench.open(*NAMES).find(problem, workspace_limit=0)
    assert bench.open(*NAMES).find(problem, workspace_limit=0).measured == 0
    full = bench.open(*NAMES).find(problem)
    assert full.best.solver == "mock-hungry"
    assert full.measured == 1


def test_on_a_hit_what_does_not_fit_is_listed_flagged_and_not_chosen(
    bench: Any, problem: ConvProblem
) -> None:
    bench.open(*NAMES).find(problem)
    found = bench.open(*NAMES).find(problem, workspace_limit=100)
    assert (found.measured, found.best.solver) == (0, "mock-dynamic")
    assert [(s.solver, s.over_limit) for s in found.solutions] == [
        ("mock-dynamic", False),
        ("mock-hungry", True),
    ]


def test_a_hit_without_anything_that_fits_measures(bench: Any, problem: ConvProblem) -> None:
    names = ("mock-hungry", "mock-last-resort")
    bench.open(*names).find(problem)
    found = bench.open(*names).find(problem, workspace_limit=0)
    assert (found.measured, found.best.solver) == (1, "mock-last-resort")
    again = bench.open(*names).find(problem, workspace_limit=0)
    assert (again.measured, again.best.solver) == (0, "mock-last-resort")
    assert bench.open(*names).find(problem).best.solver == "mock-hungry"


def test_in_the_fallback_what_does_not_fit_is_flagged(bench: Any, problem: ConvProblem) -> None:
    found = bench.open(*NAMES).find(problem, "FAST", workspace_limit=0)
    assert not found.best.over_limit
    flags = {s.solver: s.over_limit for s in found.solutions}
    assert flags == {"mock-hungry": True, "mock-dynamic": False, "mock-last-resort": False}


def test_order_by_workspace_puts_the_smallest_first(bench: Any, problem: ConvProblem) -> None:
    found = bench.open("mock-hungry", "mock-dynamic").find(problem, order="workspace")
    assert [s.solver for s in found.solutions] == ["mock-dynamic", "mock-hungry"]
