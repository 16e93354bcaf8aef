"""What a find does is decided once: explaining says beforehand what finding does then."""

from __future__ import annotations

from typing import Any

import pytest

from convfind.find.decision import Action, decide
from convfind.handle import Handle
from convfind.problem import ConvProblem

DYNAMIC = "mock-dynamic"
OTHER = "mock-packing"


@pytest.mark.parametrize(
    ("recorded", "mode", "policy", "action", "reason"),
    [
        ((), "HYBRID", {}, Action.MEASURE, "no record holds here and now"),
        ((), "FAST", {}, Action.ESTIMATE, "no record holds here and now"),
        ((DYNAMIC,), "FAST", {}, Action.ANSWER, "what is recorded holds, and this policy"),
        ((DYNAMIC, OTHER), "HYBRID", {}, Action.ANSWER, "what is recorded holds, and no solver"),
        ((DYNAMIC,), "HYBRID", {}, Action.EXTEND, f"no search has decided about {OTHER}"),
        ((DYNAMIC,), "NORMAL", {}, Action.MEASURE, "this policy does not look"),
        ((DYNAMIC, OTHER), "TRUST_VERIFY", {}, Action.CHECK, "the policy checks winner"),
        ((DYNAMIC, OTHER), "TRUST_VERIFY_FULL", {}, Action.CHECK, "the policy checks all"),
        ((DYNAMIC,), "HYBRID", {"enforce": "DB_UPDATE"}, Action.MEASURE, "this policy does not"),
        ((DYNAMIC,), "HYBRID", {"enforce": "DB_CLEAN"}, Action.MEASURE, "this policy does not"),
    ],
)
def test_explaining_says_what_a_find_then_does(
    bench: Any,
    problem: ConvProblem,
    recorded: tuple[str, ...],
    mode: str,
    policy: dict[str, Any],
    action: Action,
    reason: str,
) -> None:
    if recorded:
        bench.open(*recorded).find(problem, "NORMAL")
    handle = bench.open(DYNAMIC, OTHER)
    decision = handle.explain(problem, mode, **policy).decision
    assert decision.action is action
    assert decision.reason.startswith(reason)
    found = handle.find(problem, mode, **policy)
    assert found.measured == len(decision.runs)
    if action in (Action.ANSWER, Action.CHECK):
        assert found.solutions == decision.known.solutions
    if action is Action.ESTIMATE:
        assert not any(solution.time_origin.is_measured for solution in found.solutions)


def test_deciding_compiles_launches_and_writes_nothing(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open()
    for mode in ("NORMAL", "FAST", "HYBRID", "DYNAMIC_HYBRID", "TRUST_VERIFY"):
        decide(problem, handle.session, handle.policy(mode))
    counters = bench.backend.counters
    assert (counters.compiles, counters.launches) == (0, 0)
    assert not list(handle.database.entries())


def test_a_record_over_the_limit_is_no_answer(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-hungry")
    handle.find(problem, "NORMAL")
    decision = handle.explain(problem, "HYBRID", workspace_limit=10).decision
    assert decision.action is Action.MEASURE
    assert decision.reason == "every record needs more than 10 bytes of workspace"


def _refusals(handle: Handle, problem: ConvProblem, **policy: Any) -> dict[str, str]:
    rows = handle.explain(problem, "FAST", **policy).rows
    return {row.solver: str(row.applicability) for row in rows if not row.applicability}


def test_explain_leaves_out_whom_immediate_mode_leaves_out(
    bench: Any, problem: ConvProblem
) -> None:
    handle = bench.open(DYNAMIC, "mock-static")
    found = handle.find(problem, "FAST")
    assert list(found.rejected) == list(_refusals(handle, problem)) == ["mock-static"]
    assert not _refusals(handle, problem, solvers=[DYNAMIC, "mock-static"])
