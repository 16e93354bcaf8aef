"""The time budget of a find: what it bounds, and what becomes of the candidates behind it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from convfind.find.budget import Budget
from convfind.find.result import FindOrigin, FindResult
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch
from convfind.testing import MockSolver

NAMES = ("mock-packing", "mock-dynamic", "mock-tunable")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that budgets see, in seconds: tests move it."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def slow_compiler(bench: Any, clock: list[float]) -> list[Program]:
    """Each program takes ten seconds to compile, one after another; the programs so far."""
    compiled: list[Program] = []
    lock = threading.Lock()

    def build(program: Program) -> bool:
        with lock:
            compiled.append(program)
            clock[0] += 10.0
        return False

    bench.backend.faults.build = build
    return compiled


def takes_a_second(clock: list[float]) -> Callable[[Launch], bool]:
    """Let each launch last a second of the budget's time."""

    def launch(_: Launch) -> bool:
        clock[0] += 1.0
        return False

    return launch


def left_out(found: FindResult) -> set[str]:
    return {solver for solver, why in found.rejected.items() if why.reason is Reason.BUDGET}


def test_without_time_one_candidate_is_compiled_and_measured(
    bench: Any, problem: ConvProblem, slow_compiler: list[Program]
) -> None:
    found = bench.open(*NAMES).find(problem, "NORMAL", time_budget=0.0)
    assert (len(slow_compiler), found.measured) == (1, 1)
    assert found.best.solver == "mock-dynamic", "the only one of which something is expected"
    assert left_out(found) == {"mock-packing", "mock-tunable"}


@pytest.mark.parametrize(
    ("budget", "compiled", "measured"), [(5.0, 1, 1), (15.0, 2, 1), (25.0, 3, 2), (1000.0, 3, 3)]
)
def test_compiling_counts(
    bench: Any,
    problem: ConvProblem,
    slow_compiler: list[Program],
    budget: float,
    compiled: int,
    measured: int,
) -> None:
    found = bench.open(*NAMES).find(problem, "NORMAL", time_budget=budget)
    assert (len(slow_compiler), found.measured) == (compiled, measured)
    assert len(left_out(found)) == 3 - measured


def test_what_was_left_out_is_measured_later(
    bench: Any, problem: ConvProblem, slow_compiler: list[Program]
) -> None:
    bench.open(*NAMES).find(problem, time_budget=0.0)
    later = bench.open(*NAMES).find(problem)
    assert (later.measured, len(later.solutions)) == (2, 3)


def test_one_candidate_runs_though_others_failed_first(
    bench: Any, problem: ConvProblem, slow_compiler: list[Program]
) -> None:
    found = bench.open("mock-wrong", "mock-hungry", "mock-dynamic").find(
        problem, "NORMAL", time_budget=0.0, deny=["mock-dynamic"]
    )
    assert [s.solver for s in found.solutions] == ["mock-hungry"]


def test_tuning_counts(bench: Any, problem: ConvProblem, slow_compiler: list[Program]) -> None:
    found = bench.open("mock-tunable", "mock-dynamic").find(
        problem, "NORMAL", tune=True, time_budget=35.0
    )
    assert len(slow_compiler) == 4, "both solvers, and two of three more configs"
    assert left_out(found) == set()


def test_a_check_of_records_counts(bench: Any, problem: ConvProblem, clock: list[float]) -> None:
    names = (*NAMES, "mock-static")
    bench.open(*names).find(problem, "HYBRID")
    bench.backend.faults.launch = takes_a_second(clock)
    found = bench.open(*names).find(problem, "TRUST_VERIFY_FULL", time_budget=0.5)
    assert found.measured == 1
    assert len(found.solutions) == 4, "what was not looked at is still what it was"


def test_a_check_that_fails_with_its_budget_spent_ends_the_find(
    bench: Any, problem: ConvProblem, clock: list[float]
) -> None:
    bench.open(*NAMES).find(problem)
    bench.backend.faults.slowdown = 2.0
    bench.backend.faults.launch = takes_a_second(clock)
    found = bench.open(*NAMES).find(problem, "TRUST_VERIFY", time_budget=0.5)
    assert found.measured == 1
    times = {solution.solver: solution.time_ms for solution in found.solutions}
    assert times["mock-packing"] == pytest.approx(0.16)
    again = bench.open(*NAMES).find(problem, "FAST")
    assert {s.solver: s.time_ms for s in again.solutions} == pytest.approx(times)


def test_the_finals_end_with_the_budget(
    bench: Any, problem: ConvProblem, clock: list[float]
) -> None:
    class Twin(MockSolver):
        solver_id = "mock-twin"
        is_dynamic = True

    launches = bench.backend.counters
    bench.backend.faults.launch = takes_a_second(clock)
    found = bench.open("mock-dynamic", extra=[Twin()]).find(problem, "NORMAL", time_budget=100.0)
    assert found.measured == 2
    assert launches.launches < 2 * 60 + 10


def test_a_batch_is_as_large_as_there_is_time_for(clock: list[float]) -> None:
    assert Budget(None).batch(4) > 10**6
    budget = Budget(10.0)
    assert budget.batch(4) == 1
    budget.compiled(1, 2.0)
    assert budget.batch(4) == 4
    assert budget.batch(64) == 5
    clock[0] += 7.0
    assert budget.batch(64) == 1
    budget.compiled(4, 1.0)
    assert budget.batch(64) == 1, "the slowest counts"
    clock[0] += 7.0
    assert budget.is_spent
    assert budget.batch(64) == 1


# -- threads ------------------------------------------------------------------------------------


class Held:
    """A find in a thread whose first run lasts until it is let go."""

    def __init__(self, bench: Any, handle: Handle, problem: ConvProblem) -> None:
        self._runs, self._may_end = threading.Event(), threading.Event()
        bench.backend.faults.launch = self._wait
        self.found: list[FindResult] = []
        self._thread = threading.Thread(target=lambda: self.found.append(handle.find(problem)))

    def _wait(self, _: Launch) -> bool:
        self._runs.set()
        self._may_end.wait()
        return False

    def __enter__(self) -> Held:
        self._thread.start()
        self._runs.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._may_end.set()
        self._thread.join()


def test_a_find_whose_budget_ends_while_another_measures_answers_by_estimates(
    bench: Any, problem: ConvProblem, caplog: pytest.LogCaptureFixture
) -> None:
    handle = bench.open(*NAMES)
    other = problem.with_batch(3)
    with Held(bench, handle, problem) as held, caplog.at_level(logging.WARNING, "convfind"):
        found = handle.find(other, time_budget=0.01)
        assert held.found == []
    assert (found.origin, found.measured, found.compiled) == (FindOrigin.FALLBACK, 0, 0)
    assert found.best.time_ms is None
    assert "other finds took its time budget" in caplog.text
    assert held.found[0].measured > 0
    later = handle.find(other)
    assert (later.origin, later.measured > 0) == (FindOrigin.MEASURED, True)


def test_a_find_that_cannot_measure_in_time_has_what_is_recorded(
    bench: Any, problem: ConvProblem
) -> None:
    other = problem.with_batch(3)
    bench.open("mock-dynamic").find(other)
    handle = bench.open(*NAMES)
    with Held(bench, handle, problem):
        found = handle.find(other, time_budget=0.01)
    assert (found.origin, found.best.solver) == (FindOrigin.USER_DB, "mock-dynamic")


@pytest.mark.parametrize("seconds", [None, 1e6, 1e15])  # more than operating systems can count
def test_a_find_with_enough_time_waits_and_takes_what_others_found(
    bench: Any, problem: ConvProblem, seconds: float | None
) -> None:
    handle = bench.open(*NAMES)
    found: list[FindResult] = []

    def find() -> None:
        found.append(handle.find(problem, time_budget=seconds))

    thread = threading.Thread(target=find)
    with Held(bench, handle, problem) as held:
        thread.start()
    thread.join()
    assert sorted(one.origin for one in (*held.found, *found)) == ["measured", "user-db"]


def test_a_listener_may_find_within_a_find(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open(*NAMES)
    inner: list[FindResult] = []

    def listen(stage: str, done: int, total: int, label: str) -> None:
        if not inner:
            inner.append(handle.find(problem.with_batch(3)))

    assert handle.find(problem, on_progress=listen).measured > 0
    assert inner[0].measured > 0
