"""Problems that are found as one batch."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import wait
from contextlib import AbstractContextManager
from typing import Any

import pytest

from convfind.checking.workbench import drawn_ahead
from convfind.device.target import DeviceKind, Target
from convfind.find.finder import find
from convfind.find.result import FindOrigin
from convfind.policy import Policy
from convfind.problem import ConvProblem, Problem
from convfind.reasons import Reason
from convfind.runtime.session import Progress, Session
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch
from convfind.testing.mock_backend import MOCK_TARGET, MockBackend
from convfind.testing.solvers import MockTimed

GPU = dataclasses.replace(MOCK_TARGET, kind=DeviceKind.GPU)
SOURCE = KernelSource("convfind.checking", "kernels/ring.cl")
#: Longer than anything here takes.
WAIT_SECONDS = 60


class OfBatch(MockTimed):
    """Takes problems of one batch size."""

    def __init__(self, solver_id: str, microseconds: int, batch: int) -> None:
        super().__init__(solver_id, microseconds, 0.9)
        self._batch = batch

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        if problem.x_shape[0] != self._batch:
            return Rejected(Reason.PROBLEM, "of another batch size")
        return APPLICABLE


def program_of(solver: MockTimed, program: Program) -> bool:
    return dict(program.defines).get("MICROSECONDS") == solver.microseconds


@pytest.fixture(params=[DeviceKind.CPU, DeviceKind.GPU])
def anywhere(request: pytest.FixtureRequest, bench: Any) -> Any:
    """A bench of a CPU, and of a GPU."""
    bench.backend = MockBackend(devices=(dataclasses.replace(MOCK_TARGET, kind=request.param),))
    return bench


FIELD = (MockTimed("fast", 50, 0.9), MockTimed("close", 52, 0.8), MockTimed("slow", 500, 0.09))


def test_a_batch_finds_what_single_finds_find(anywhere: Any, problem: ConvProblem) -> None:
    problems = [problem.with_batch(size) for size in (1, 2, 3)]
    built: list[Program] = []
    anywhere.backend.faults.build = built.append  # which is not True
    handle = anywhere.open("mock-static", extra=FIELD)
    heard: list[tuple[str, int, int]] = []
    found = handle.find_all(
        [*problems, problems[1]], on_progress=lambda *told: heard.append(told[:3])
    )
    assert list(found) == problems
    assert [found[one].best.solver for one in problems] == ["fast"] * 3
    assert len(built) == len(set(built)) >= 2, "each program once"
    assert heard == [("find", done, 3) for done in range(4)]
    again = handle.find_all(problems)
    assert {one.origin for one in again.values()} == {FindOrigin.USER_DB}


def test_a_gpu_measures_while_the_host_compiles(bench: Any, problem: ConvProblem) -> None:
    bench.backend = MockBackend(devices=(GPU,))
    early, late = OfBatch("early", 50, 1), OfBatch("late", 60, 2)
    seconds = OfBatch("second-early", 70, 1), OfBatch("second-late", 80, 2)
    measured = threading.Event()

    def waits(program: Program) -> bool:
        if program_of(late, program):
            assert measured.wait(WAIT_SECONDS), "nothing was measured before all was compiled"
        return False

    bench.backend.faults.build = waits

    def notes(launch: Launch) -> bool:
        if program_of(early, launch.kernel.program):
            measured.set()
        return False

    bench.backend.faults.launch = notes
    handle = bench.open("mock-static", extra=(early, late, *seconds))
    problems = [problem.with_batch(size) for size in (2, 1)]
    found = handle.find_all(problems)
    assert [found[one].best.solver for one in problems] == ["late", "early"]


def test_a_cpu_measures_once_all_is_compiled(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-static", extra=FIELD)
    compiled: list[int] = []
    handle.find_all(
        [problem.with_batch(size) for size in (1, 2, 3)],
        on_progress=lambda *told: compiled.append(bench.backend.counters.compiles),
    )
    assert compiled[0] > 0
    assert set(compiled) == {compiled[0]}


def test_who_does_not_compile_is_refused_by_its_find(anywhere: Any, problem: ConvProblem) -> None:
    bad = MockTimed("bad", 45, 0.95)
    anywhere.backend.faults.build = lambda program: program_of(bad, program)
    handle = anywhere.open("mock-static", extra=(*FIELD, bad))
    problems = [problem.with_batch(size) for size in (1, 2)]
    for result in handle.find_all(problems).values():
        assert result.best.solver == "fast"
        assert result.rejected["bad"].reason is Reason.BUILD_FAILED


def test_a_spent_budget_leaves_estimates(anywhere: Any, problem: ConvProblem) -> None:
    handle = anywhere.open("mock-static", extra=FIELD)
    found = handle.find_all([problem, problem.with_batch(5)], time_budget=0)
    assert {one.origin for one in found.values()} == {FindOrigin.FALLBACK}


@pytest.mark.parametrize("given", [{}, {"time_budget": None}, {"time_budget": 1e6}])
def test_a_find_has_the_environments_budget_unless_the_batch_has_one(
    anywhere: Any, problem: ConvProblem, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    budgets: list[float | None] = []

    def noted(one: Problem, session: Session, policy: Policy, progress: Progress) -> Any:
        budgets.append(policy.time_budget)
        return find(one, session, policy, progress)

    monkeypatch.setattr("convfind.handle.handle.find", noted)
    handle = anywhere.open("mock-static", extra=FIELD, find_time_budget=1e3)
    handle.find_all([problem], **given)
    (budget,) = budgets
    assert budget == (given["time_budget"] and pytest.approx(1e6, rel=0.1) if given else 1e3)


def test_an_empty_problem_is_found_beside_others(anywhere: Any, problem: ConvProblem) -> None:
    handle = anywhere.open("mock-static", extra=FIELD)
    empty = problem.with_batch(0)
    found = handle.find_all([empty, problem])
    assert list(found) == [empty, problem]
    assert found[problem].best.solver == "fast"
    assert handle.find_all([]) == {}


def test_nothing_is_left_under_way_where_a_find_ends_the_batch(
    bench: Any, problem: ConvProblem
) -> None:
    bench.backend = MockBackend(devices=(GPU,))
    handle = bench.open("mock-static", extra=FIELD)

    def ended(stage: str, done: int, total: int, label: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        handle.find_all([problem.with_batch(size) for size in (1, 2, 3)], on_progress=ended)
    assert not handle.session.kernels._underway
    assert not handle.session.kept
    assert handle.find(problem).best.solver == "fast"


def test_batches_within_and_beside_others_share_what_compiles(
    bench: Any, problem: ConvProblem
) -> None:
    bench.backend = MockBackend(devices=(GPU,))
    begun = threading.Barrier(3)
    handle = bench.open("mock-static", extra=FIELD)
    problems = [problem.with_batch(size) for size in (1, 2, 3)]
    inner: list[int] = []
    outer: list[int] = []

    def within(stage: str, done: int, total: int, label: str) -> None:
        if done == 0:
            begun.wait(WAIT_SECONDS)
            inner.append(len(handle.find_all(problems)))

    def beside() -> None:
        outer.append(len(handle.find_all(problems, on_progress=within)))

    threads = [threading.Thread(target=beside) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inner == outer == [3] * 3
    assert not handle.session.kernels._underway
    assert not handle.session.kept


def test_whoever_waits_for_what_another_batch_gives_up_goes_on(
    bench: Any, problem: ConvProblem
) -> None:
    bench.backend = MockBackend(devices=(GPU,))
    handle = bench.open("mock-static", extra=FIELD, compile_parallel_level=1)
    kernels = handle.session.kernels
    first, second = (Program(SOURCE, defines=(("N", number),)) for number in (1, 2))
    goes_on = threading.Event()
    bench.backend.faults.build = lambda program: not goes_on.wait(WAIT_SECONDS)
    waiter = threading.Thread(target=lambda: wait([jobs[second]]), daemon=True)
    with kernels.compiling([first, second]):
        jobs = dict(kernels._underway)
        waiter.start()
        while not jobs[second]._waiters:
            threading.Event().wait(0.001)
    goes_on.set()
    waiter.join(WAIT_SECONDS)
    assert not waiter.is_alive()


def test_a_convolution_and_its_transposed_form_are_drawn_once(
    bench: Any, problem: ConvProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.backend = MockBackend(devices=(GPU,))
    drawn: list[Problem] = []

    def noted(one: Problem, session: Session) -> AbstractContextManager[None]:
        drawn.append(one)
        return drawn_ahead(one, session)

    monkeypatch.setattr("convfind.find.batch.drawn_ahead", noted)
    handle = bench.open("mock-static", extra=FIELD)
    transposed = [
        ConvProblem.backward_data((size, 8, 6, 6), (8, 4, 3, 3), mode="transpose", padding=1)
        for size in (1, 2, 3)
    ]
    problems = [one for other in transposed for one in (other, other.plain())]
    assert len(handle.find_all(problems)) == 6
    assert len(drawn) == len(set(drawn)) == 2
