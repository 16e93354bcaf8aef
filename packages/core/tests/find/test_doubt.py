"""Finds beside other work: what they record is no certain answer, and is measured again, once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from convfind.find.decision import Action, decide
from convfind.find.result import FindOrigin
from convfind.find.solution import TimeOrigin
from convfind.problem import ConvProblem
from convfind.runtime.disturbance import Disturbance, is_disturbed
from convfind.solver.recipe import Launch
from convfind.testing.solvers import MockTimed

GOOD, OTHER = MockTimed("good", 1000), MockTimed("other", 1500)


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


def test_a_find_answers_as_its_record_will(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-static", extra=(GOOD, OTHER))
    noisy = (3.0, 9.0, 5.0, 7.0)
    disturb(bench, lambda own, run: noisy[run % 4] if own == GOOD.microseconds else 1.0)
    handle.session.disturbances.append(Disturbance(40, 40))  # a race before
    first = handle.find(problem)
    assert (first.is_in_doubt, first.best.solver) == (True, "other")
    # What was noisy is even now, but slower than the other was, whose times say less than before.
    disturb(bench, lambda own, run: 1.6 if own == GOOD.microseconds else noisy[run % 4])
    again, third = handle.find(problem), handle.find(problem)
    assert (again.origin, third.origin) == (FindOrigin.MEASURED, FindOrigin.USER_DB)
    assert again.best.solver == third.best.solver == "other"
    assert again.best.time_ms == third.best.time_ms == pytest.approx(1.5)


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


def test_a_find_next_to_disturbed_ones_is_in_doubt_too(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-static", extra=(GOOD, OTHER))
    for size in range(3, 6):
        disturb(bench, busy)
        handle.find(problem.with_batch(size))
    disturb(bench, quiet)
    assert handle.find(problem).is_in_doubt
    assert (
        not bench.open("mock-static", extra=(GOOD, OTHER)).find(problem.with_batch(9)).is_in_doubt
    )


def test_samples_are_compared_with_the_fastest_of_the_same_candidate() -> None:
    assert Disturbance.of([[1.0, 1.1, 1.2], [4.0, 4.1, 4.4]]) == (0, 4)
    assert Disturbance.of([[1.0, 1.6, 1.7], [4.0, 4.1, 6.4]]) == (3, 4)
    assert Disturbance.of([[1.0, 1.4, 1.7], [], [4.0, 4.1, 5.9], [3.0]]) == (1, 4)
    assert Disturbance.of([[0.05, 9.0, 9.0, 9.0, 9.0]]) == (0, 0), "short runs scatter"
    assert Disturbance.of([]) == (0, 0)


@pytest.mark.parametrize(
    ("latest", "is_much"),
    [
        ([(2, 4)], True),
        ([(3, 3)], False),  # too few samples to say so
        ([(2, 5)], False),
        ([(0, 0)], False),
        ([(6, 12), (0, 4)], True),  # of the latest together
        ([(6, 12), (0, 3)], False),
        ([(6, 12), (0, 8)], False),
        ([(0, 40), (2, 4)], True),
    ],
)
def test_so_many_slow_samples_put_a_race_in_doubt(
    latest: list[tuple[int, int]], is_much: bool
) -> None:
    assert is_disturbed([Disturbance(*one) for one in latest]) is is_much
