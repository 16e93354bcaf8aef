"""Finds beside other work: what they record is no certain answer, and is measured again, once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from convfind.checking.measuring import are_disturbed
from convfind.find.decision import Action, decide
from convfind.find.result import FindOrigin
from convfind.find.solution import TimeOrigin
from convfind.problem import ConvProblem
from convfind.solver.recipe import Launch
from convfind.testing import MockSolver


class Runner(MockSolver):
    """Takes some microseconds."""

    is_dynamic = True

    def __init__(self, name: str, microseconds: int) -> None:
        self.solver_id = name
        self._microseconds = microseconds

    @property
    def microseconds(self) -> int:  # type: ignore[override]  # of each runner its own
        return self._microseconds


GOOD, OTHER = Runner("good", 1000), Runner("other", 1500)


def disturb(bench: Any, factor: Callable[[int, int], float]) -> None:
    """Let runs take a multiple, by the solver's microseconds and the number of its run."""
    runs: dict[int, int] = {}

    def before(launch: Launch) -> bool:
        own = int(dict(launch.kernel.program.defines).get("MICROSECONDS", 0))
        runs[own] = runs.get(own, -1) + 1
        bench.backend.faults.slowdown = factor(own, runs[own])
        return False

    bench.backend.faults.launch = before


def busy(microseconds: int, run: int) -> float:
    """Hit most runs; those of the good solver until it has lost."""
    if microseconds == GOOD.microseconds and run < 8:
        return 5.0
    return 1.0 if run % 4 == 3 else 2.0


def quiet(microseconds: int, run: int) -> float:
    """Hit none."""
    return 1.0


def test_what_a_disturbed_find_records_is_measured_again_by_the_next(
    bench: Any, problem: ConvProblem
) -> None:
    handle = bench.open("mock-static", extra=(GOOD, OTHER))
    disturb(bench, busy)
    first = handle.find(problem)
    assert (first.is_in_doubt, first.best.solver) == (True, "other")
    assert first.to_dict()["in_doubt"]
    decision = decide(problem, handle.session, handle.policy())
    assert decision.action is Action.EXTEND
    assert "beside other work" in decision.reason
    disturb(bench, quiet)
    again = handle.find(problem)
    assert (again.origin, again.measured) == (FindOrigin.MEASURED, 2)
    assert (again.is_in_doubt, again.best.solver) == (False, "good")
    assert again.best.time_origin is TimeOrigin.MEASURED
    third = handle.find(problem)
    assert (third.origin, third.measured, third.is_in_doubt) == (FindOrigin.USER_DB, 0, False)
    assert third.best.solver == "good"


def test_another_process_knows_that_a_record_is_in_doubt(bench: Any, problem: ConvProblem) -> None:
    disturb(bench, busy)
    with bench.open("mock-static", extra=(GOOD, OTHER)) as handle:
        handle.find(problem)
    disturb(bench, quiet)
    later = bench.open("mock-static", extra=(GOOD, OTHER))
    served = later.find(problem, "FAST")
    assert (served.best.solver, served.is_in_doubt) == ("other", True), "it measures nothing"
    assert later.find(problem).best.solver == "good"


def test_where_a_machine_is_always_busy_a_problem_is_measured_twice(
    bench: Any, problem: ConvProblem
) -> None:
    handle = bench.open("mock-static", extra=(GOOD, OTHER))
    disturb(bench, lambda microseconds, run: 1.0 if run % 4 == 3 else 2.0)
    assert [handle.find(problem).measured > 0 for _ in range(4)] == [True, True, False, False]


def test_times_in_doubt_are_no_knowledge(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-static", extra=(GOOD, OTHER))
    target = handle.target.identity
    disturb(bench, busy)
    handle.find(problem)
    assert handle.database.times(target, problem) == {}
    assert handle.session.lessons == {}
    disturb(bench, quiet)
    handle.find(problem)
    assert set(handle.database.times(target, problem)) == {"good@1", "other@1"}


def test_a_find_that_measures_everybody_is_certain(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-static", extra=(GOOD, OTHER))
    disturb(bench, busy)
    assert not handle.find(problem, "NORMAL").is_in_doubt
    assert handle.find(problem).measured == 0


def test_one_line_says_so(
    bench: Any, problem: ConvProblem, caplog: pytest.LogCaptureFixture
) -> None:
    handle = bench.open("mock-static", extra=(GOOD, OTHER))
    for factor, lines in ((busy, 1), (quiet, 0)):
        caplog.clear()
        disturb(bench, factor)
        with caplog.at_level(logging.WARNING, "convfind"):
            handle.find(problem)
        said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        assert len(said) == lines
        assert all("beside other work" in one for one in said)


def test_samples_are_compared_with_the_fastest_of_the_same_candidate() -> None:
    assert not are_disturbed([[1.0, 1.1, 1.2], [4.0, 4.1, 4.4]])
    assert are_disturbed([[1.0, 1.6, 1.7], [4.0, 4.1, 6.4]])
    assert not are_disturbed([[1.0, 1.4, 1.7], [4.0, 4.1, 5.9]])


def test_a_few_samples_and_short_runs_say_nothing() -> None:
    assert not are_disturbed([])
    assert not are_disturbed([[], [1.0]])
    assert not are_disturbed([[1.0, 9.0, 9.0, 9.0]])
    assert are_disturbed([[1.0, 9.0, 9.0, 9.0, 9.0]])
    assert not are_disturbed([[0.05, 9.0, 9.0, 9.0, 9.0]])
