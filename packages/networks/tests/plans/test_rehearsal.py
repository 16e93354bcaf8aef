"""Solutions that finds had among the fastest are timed once more within runs of the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks_for_tests import graph_of
from plans_for_tests import RELU, Layers, compiled, inputs_of

from convfind.find.result import FindResult
from convfind.handle import Handle
from convfind.problem.contract import Problem
from convfind_networks import Graph, GraphBuilder, Value, evaluate, optimize
from convfind_networks.graph import Node
from convfind_networks.layouts import channels_last_where_possible, lay_out
from convfind_networks.lowering import Call
from convfind_networks.ops import Convolution, Epilogue, Geometry
from convfind_networks.plan import Plan
from convfind_networks.plan.draft import Draft
from convfind_networks.plan.posing import Posing
from convfind_networks.plan.rehearsal import paired, rehearsed

SLOW, FAST, PAIR = "direct-naive-fwd", "igemm-cpu-nhwc-fwd", "operators-pointwise-depthwise"


def block(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    """Add a 1x1 convolution, a depthwise one and a 1x1 convolution."""
    make = Layers(builder)
    for channels, size, groups in ((64, 1, 1), (64, 3, 64), (48, 1, 1)):
        pads = (size // 2,) * 2
        geometry = Geometry((1, 1), pads, pads, (1, 1), groups)
        w = make.weights(channels, x.shape[1] // groups, size, size)
        epilogue = Epilogue(bias=True, activation=RELU)
        x = builder.add(Convolution(geometry, epilogue), x, w, make.weights(channels))
    return {"y": x}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return optimize(graph_of(block, (1, 48, 28, 28)))


def timed(
    handle: Handle, problem: Problem, result: FindResult, times: Mapping[str, float]
) -> FindResult:
    """Return a result as if some solvers had been measured, in the order of their times."""
    found = []
    for name, time in times.items():
        solver = handle.registry.solver(name)
        if solver.takes(problem, handle.target):
            workspace = solver.workspace_size(problem, handle.target)
            found.append(
                replace(result.best, solver=name, time_ms=time, config=None, workspace=workspace)
            )
    return replace(result, solutions=tuple(found) or (result.best,))


def rehearsal(handle: Handle, graph: Graph, times: Mapping[str, float]) -> Plan:
    """Rehearse a network whose finds had these times, ascending, by solver."""
    return rehearsed(*draft_of(handle, graph, times))


def draft_of(
    handle: Handle, graph: Graph, times: Mapping[str, float]
) -> tuple[Draft, dict[Node, Call]]:
    """Return a network whose finds had these times, ascending, by solver, and its pairs."""
    posing = Posing("block", handle)
    laid_out = lay_out(graph, channels_last_where_possible(graph, prefer=True))
    calls, pairs = posing.calls(laid_out), posing.pairs(laid_out)
    problems = {call.problem for call in (*calls, *pairs.values())}
    found: dict[Any, FindResult] = {
        one: timed(handle, one, handle.find(one, on_miss="estimate"), times) for one in problems
    }
    return Draft(posing, laid_out, calls, found), pairs


def solvers(plan: Plan) -> list[str]:
    return [task.solution.solver for task in plan.schedule.tasks]


def assert_right(plan: Plan, graph: Graph) -> None:
    inputs = inputs_of(graph)
    expected = evaluate(graph, inputs)["y"]
    np.testing.assert_allclose(plan.run(inputs)["y"], expected, rtol=0, atol=1e-4)


def test_what_is_faster_within_the_network_is_used(
    handle: Handle, graph: Graph, tmp_path: Path
) -> None:
    plan = rehearsal(handle, graph, {SLOW: 1.0, FAST: 1.1})
    assert solvers(plan).count(FAST) >= 2
    assert_right(plan, graph)
    choices = [task.choice for task in plan.schedule.tasks if task.solution.solver == FAST]
    assert any(one.endswith(f"times the time of {SLOW} within the network") for one in choices)
    plan.save(tmp_path / "it.plan")
    again = Plan.load(tmp_path / "it.plan", handle)
    assert solvers(again) == solvers(plan)


def test_what_finds_had_far_behind_is_not_timed_again(handle: Handle, graph: Graph) -> None:
    plan = rehearsal(handle, graph, {SLOW: 1.0, FAST: 2.0})
    assert FAST not in solvers(plan)


def test_what_nobody_has_measured_is_not_timed_either(handle: Handle, graph: Graph) -> None:
    plan = compiled(handle, graph, channels_last=True, rehearse=True)
    assert solvers(plan) == solvers(compiled(handle, graph, channels_last=True))
    assert_right(plan, graph)


def test_two_convolutions_are_one_where_that_is_faster_within_the_network(
    handle: Handle, graph: Graph
) -> None:
    times = {FAST: 0.1, SLOW: 0.1, PAIR: 1.0}
    plan = rehearsal(handle, graph, times)
    kinds = [task.problem.kind for task in plan.schedule.tasks]
    assert "pointwise-depthwise" in kinds  # the depthwise one is by the slow solver
    assert_right(plan, graph)


def test_pairs_are_decided_within_runs_whatever_finds_had_measured(
    handle: Handle, graph: Graph
) -> None:
    recorded_slower = {FAST: 0.1, SLOW: 0.1, PAIR: 1.0}
    draft = paired(*draft_of(handle, graph, recorded_slower))
    plan = draft.plan()
    assert "pointwise-depthwise" in [task.problem.kind for task in plan.schedule.tasks]
    assert_right(plan, graph)


def test_pairs_that_nobody_has_measured_stay_two(handle: Handle, graph: Graph) -> None:
    draft, pairs = draft_of(handle, graph, {FAST: 0.1, SLOW: 0.1})
    estimated = {
        problem: replace(
            result, solutions=tuple(replace(one, time_ms=None) for one in result.solutions)
        )
        if problem.kind == "pointwise-depthwise"
        else result
        for problem, result in draft.found.items()
    }
    assert paired(replace(draft, found=estimated), pairs).calls == draft.calls


@pytest.mark.slow
def test_a_network_that_is_measured_and_rehearsed_is_right(handle: Handle, graph: Graph) -> None:
    plan = compiled(handle, graph, channels_last=True, on_miss="measure", rehearse=True)
    assert_right(plan, graph)
