"""Failures of candidates, filters, budgets, counters: what a find promises whatever the mode."""

from __future__ import annotations

import time
from typing import Any

import pytest

from convfind.device.target import Target
from convfind.errors import DeviceError, NoSolverError, SettingsError
from convfind.find.decision import decide
from convfind.find.result import FindOrigin
from convfind.find.solution import TimeOrigin
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.testing import MockSolver
from convfind.testing.solvers import MockTimed


def test_a_wrong_solution_is_reported_quarantined_and_never_recorded(
    bench: Any, problem: ConvProblem
) -> None:
    found = bench.open("mock-wrong", "mock-dynamic").find(problem)
    assert [s.solver for s in found.solutions] == ["mock-dynamic"]
    assert found.rejected["mock-wrong"].reason is Reason.WRONG_RESULT
    handle = bench.open("mock-wrong", "mock-dynamic")
    again = handle.find(problem, "NORMAL")
    assert again.rejected["mock-wrong"].reason is Reason.QUARANTINED
    assert "quarantine lift --solver mock-wrong" in again.rejected["mock-wrong"].detail
    stored = handle.database.lookup(handle.target, problem)
    assert stored is not None
    assert [record.solver for record in stored.entry.records] == ["mock-dynamic"]


def test_a_record_of_a_solver_that_turned_wrong_is_no_answer(
    bench: Any, problem: ConvProblem
) -> None:
    bench.open("mock-dynamic", "mock-packing").find(problem)
    bench.backend.faults.result = lambda launch: launch.kernel.entry == "mock_pack"
    found = bench.open("mock-dynamic", "mock-packing").find(problem, "NORMAL")
    assert found.rejected["mock-packing"].reason is Reason.WRONG_RESULT
    hit = bench.open("mock-dynamic", "mock-packing").find(problem)
    assert [s.solver for s in hit.solutions] == ["mock-dynamic"]


def test_a_solver_whose_quarantine_is_lifted_is_tried_again(
    bench: Any, problem: ConvProblem
) -> None:
    bench.backend.faults.result = lambda launch: launch.kernel.entry == "mock_pack"
    handle = bench.open("mock-dynamic", "mock-packing")
    assert [s.solver for s in handle.find(problem).solutions] == ["mock-dynamic"]
    bench.backend.faults.result = lambda launch: False
    assert handle.find(problem).measured == 0
    handle.database.release(handle.target, problem, "mock-packing")
    found = handle.find(problem)
    assert (found.measured, found.best.solver) == (1, "mock-packing")


def test_a_build_failure_is_a_rejection_with_the_log(bench: Any, problem: ConvProblem) -> None:
    found = bench.open("mock-broken", "mock-dynamic").find(problem)
    why = found.rejected["mock-broken"]
    assert why.reason is Reason.BUILD_FAILED
    assert "told to fail" in why.detail
    assert found.best.solver == "mock-dynamic"


def test_a_failing_launch_is_a_rejection(bench: Any, problem: ConvProblem) -> None:
    bench.backend.faults.launch = lambda launch: launch.kernel.entry == "mock_pack"
    found = bench.open("mock-packing", "mock-dynamic").find(problem)
    assert found.rejected["mock-packing"].reason is Reason.LAUNCH_FAILED
    assert found.best.solver == "mock-dynamic"


class Raising(MockSolver):
    """Raises where it must answer."""

    solver_id = "mock-raising"
    is_dynamic = True

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        raise RuntimeError("out of my depth")


class Nonsense(MockSolver):
    """Answers with something else."""

    solver_id = "mock-nonsense"
    is_dynamic = True

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        return "yes"  # type: ignore[return-value]


def test_a_solver_that_raises_or_returns_nonsense_stops_nothing(
    bench: Any, problem: ConvProblem
) -> None:
    found = bench.open("mock-dynamic", extra=[Raising(), Nonsense()]).find(problem)
    assert found.best.solver == "mock-dynamic"
    assert "out of my depth" in found.rejected["mock-raising"].detail
    assert found.rejected["mock-nonsense"].reason is Reason.SOLVER_ERROR


def test_last_resorts_run_only_where_nothing_else_does(bench: Any, problem: ConvProblem) -> None:
    found = bench.open("mock-wrong", "mock-last-resort").find(problem)
    assert [s.solver for s in found.solutions] == ["mock-last-resort"]


def test_without_any_solver_best_carries_all_refusals(bench: Any, problem: ConvProblem) -> None:
    found = bench.open("mock-broken").find(problem)
    assert found.solutions == ()
    with pytest.raises(NoSolverError, match="mock-broken") as caught:
        _ = found.best
    assert caught.value.rejected["mock-broken"].reason is Reason.BUILD_FAILED


def test_the_message_is_about_the_problem(bench: Any, problem: ConvProblem) -> None:
    found = bench.open().find(problem, solvers={"mock-broken"})
    with pytest.raises(NoSolverError) as caught:
        _ = found.best
    _, _, reasons = str(caught.value).partition("|")
    assert reasons.count("mock-") == 1
    assert f"{len(found.rejected) - 1} more; `convfind explain` says why" in reasons


def test_a_problem_beyond_memory_is_an_error_that_says_so(bench: Any) -> None:
    huge = ConvProblem.forward(x=(2**40, 2**10, 1, 1), w=(1, 2**10, 1, 1))
    with pytest.raises(DeviceError, match=r"no memory to measure fwd-1099.*mode FAST"):
        bench.open("mock-dynamic").find(huge)


def test_a_time_budget_of_nothing_still_measures_one(bench: Any, problem: ConvProblem) -> None:
    names = ("mock-packing", "mock-dynamic", "mock-tunable")
    found = bench.open(*names).find(problem, time_budget=0.0)
    assert found.measured == 1
    left_out = [s for s, why in found.rejected.items() if why.reason is Reason.BUDGET]
    assert len(left_out) == 2
    later = bench.open(*names).find(problem)
    assert later.measured == 2, "a search that was cut short is continued"
    assert len(later.solutions) == 3


def test_a_quick_find_takes_fewer_samples(
    bench: Any, problem: ConvProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)  # as on a machine fast enough

    def samples(quick: bool) -> list[int]:
        handle = bench.open("mock-dynamic")
        handle.find(problem, mode="normal", quick=quick)
        entry, _, _ = handle.session.database.own(handle.target, problem)
        return [record.samples for record in entry.records]

    assert max(samples(quick=True)) == 24
    assert max(samples(quick=False)) == 60


def test_filters_do_not_hide_a_richer_record(bench: Any, problem: ConvProblem) -> None:
    bench.open("mock-dynamic", "mock-packing").find(problem)
    narrow = bench.open("mock-dynamic", "mock-packing").find(problem, solvers=["mock-dynamic"])
    assert [s.solver for s in narrow.solutions] == ["mock-dynamic"]
    assert len(bench.open("mock-dynamic", "mock-packing").find(problem).solutions) == 2


def test_a_narrow_search_is_completed_later(bench: Any, problem: ConvProblem) -> None:
    bench.open("mock-dynamic", "mock-packing").find(problem, solvers=["mock-dynamic"])
    found = bench.open("mock-dynamic", "mock-packing").find(problem)
    assert (found.measured, len(found.solutions)) == (1, 2)


def test_denied_solvers_and_algorithms_are_left_out(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-dynamic", "mock-packing")
    found = handle.find(problem, "NORMAL", deny=["mock-packing"])
    assert found.rejected["mock-packing"].reason is Reason.DENIED
    assert handle.find(problem, "NORMAL", algorithms=["fft"]).solutions == ()


def test_unknown_policy_fields_are_refused_naming_the_legal_ones(
    bench: Any, problem: ConvProblem
) -> None:
    with pytest.raises(SettingsError, match="workspace_limit"):
        bench.open("mock-dynamic").find(problem, workspace=3)


def test_a_new_process_compiles_nothing(bench: Any, problem: ConvProblem) -> None:
    first = bench.open("mock-dynamic").find(problem)
    assert first.compiled == 1
    second = bench.open("mock-dynamic").find(problem, "NORMAL")
    assert (second.compiled, second.measured) == (0, 1)


def test_transposed_problems_share_the_record_of_their_plain_form(bench: Any) -> None:
    transposed = ConvProblem.forward(x=(2, 8, 5, 5), w=(8, 4, 2, 2), stride=2, mode="transpose")
    handle = bench.open("mock-dynamic")
    found = handle.find(transposed)
    assert found.problem == transposed.key
    assert found.best.problem == transposed.key
    assert handle.find(transposed.plain()).origin is FindOrigin.USER_DB


def test_a_driver_change_makes_a_record_stale_and_keeps_it(
    bench: Any, problem: ConvProblem
) -> None:
    from dataclasses import replace

    bench.open("mock-dynamic").find(problem)
    old = next(iter(bench.backend.targets()))
    bench.backend.devices = (replace(old, driver="2.0"),)
    found = bench.open("mock-dynamic").find(problem)
    assert found.origin is FindOrigin.USER_DB
    assert found.best.stale
    checked = bench.open("mock-dynamic").find(problem, "TRUST_VERIFY")
    assert checked.measured == 1
    assert not bench.open("mock-dynamic").find(problem).best.stale


def test_a_raised_solver_version_makes_records_void(bench: Any, problem: ConvProblem) -> None:
    class Newer(MockSolver):
        solver_id = "mock-newer"
        is_dynamic = True

    bench.open("mock-last-resort", extra=[Newer()]).find(problem)
    Newer.version = 2
    found = bench.open("mock-last-resort", extra=[Newer()]).find(problem)
    assert (found.origin, found.measured) == (FindOrigin.MEASURED, 1)


@pytest.mark.parametrize(("now", "best"), [(30, "leader"), (70, "second")])
def test_who_led_in_an_earlier_version_runs_again_beside_the_best_of_the_others(
    bench: Any, problem: ConvProblem, now: int, best: str
) -> None:
    def fields(microseconds: int, version: int) -> list[MockSolver]:
        leader = MockTimed("leader", microseconds)
        leader.version = version  # type: ignore[misc]  # of this one
        return [leader, MockTimed("second", 50), MockTimed("third", 60)]

    with bench.open("mock-last-resort", extra=fields(40, 1)) as handle:
        assert handle.find(problem).best.solver == "leader"
    handle = bench.open("mock-last-resort", extra=fields(now, 2))
    served = handle.find(problem, "FAST")
    assert (served.best.solver, served.measured, served.is_in_doubt) == ("second", 0, True)
    decision = decide(problem, handle.session, handle.policy())
    assert decision.runs == ("leader", "second")
    assert "another version" in decision.reason
    found = handle.find(problem)
    assert (found.measured, found.best.solver, found.is_in_doubt) == (2, best, False)
    again = handle.find(problem)
    assert (again.measured, again.best.solver, again.is_in_doubt) == (0, best, False)


@pytest.mark.parametrize("why", ["refuses", "is for one shape", "is outrun"])
def test_nobody_waits_for_a_leader_whose_new_version_never_runs(
    bench: Any, problem: ConvProblem, why: str
) -> None:
    """The answer would be in doubt for ever, and no find would change that."""

    class Leader(MockTimed):
        def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
            if why == "refuses" and self.version > 1:
                return Rejected(Reason.CHANNELS)
            return super().applicability(problem, target)

    def fields(version: int) -> list[MockSolver]:
        is_slow = why == "is outrun" and version > 1
        leader = Leader("leader", 40, 1e-4 if is_slow else None)
        leader.version = version  # type: ignore[misc]  # of this one
        leader.is_dynamic = why != "is for one shape" or version == 1
        return [leader, MockTimed("second", 50, 0.9 if is_slow else None)]

    with bench.open("mock-last-resort", extra=fields(1)) as handle:
        assert handle.find(problem).best.solver == "leader"
    handle = bench.open("mock-last-resort", extra=fields(2))
    first, *others = (handle.find(problem) for _ in range(3))
    assert first.measured == (why == "is outrun")
    for one in (first, *others):
        assert (one.best.solver, one.is_in_doubt) == ("second", False)
    assert [one.measured for one in others] == [0, 0]


def test_who_lost_in_an_earlier_version_is_measured_alone(bench: Any, problem: ConvProblem) -> None:
    fields = [MockTimed("leader", 40), MockTimed("second", 50)]
    with bench.open("mock-last-resort", extra=fields) as handle:
        handle.find(problem)
    fields[1].version = 2  # type: ignore[misc]  # of this one
    handle = bench.open("mock-last-resort", extra=fields)
    assert not handle.find(problem, "FAST").is_in_doubt
    assert (handle.find(problem).measured, handle.find(problem).measured) == (1, 0)


def test_constant_weights_are_a_record_of_their_own(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-packing")
    plain = handle.find(problem)
    bound = handle.find(problem, constant_weights=True)
    assert (plain.best.time_ms, bound.best.time_ms) == (pytest.approx(0.08), pytest.approx(0.04))
    again = handle.find(problem)
    assert (again.measured, again.best.time_ms) == (0, pytest.approx(0.08))
    assert handle.find(problem, constant_weights=True).best.time_ms == pytest.approx(0.04)
    assert handle.find(problem, constant_weights=True).measured == 0


def test_results_say_where_times_come_from(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-dynamic")
    assert handle.find(problem).best.time_origin is TimeOrigin.MEASURED
    best = handle.find(problem).best
    assert best.time_origin is TimeOrigin.USER_DB
    assert best.samples >= 3
    assert best.error is not None
    assert best.error < 1e-6


def test_two_equal_finds_give_equal_results_in_the_same_order(
    bench: Any, problem: ConvProblem
) -> None:
    first = bench.open().find(problem, "NORMAL", write_back=False)
    second = bench.open().find(problem, "NORMAL", write_back=False)
    assert [s.solver for s in first.solutions] == [s.solver for s in second.solutions]


def test_nothing_unverified_is_recorded(bench: Any, problem: ConvProblem) -> None:
    found = bench.open("mock-wrong").find(problem, verify=False)
    assert found.best.error is None
    assert bench.open("mock-wrong").find(problem, "FAST").origin is FindOrigin.FALLBACK
