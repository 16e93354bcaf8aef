"""The bench on which candidates are timed."""

from __future__ import annotations

from typing import Any

import pytest

from convfind.checking.workbench import Workbench
from convfind.find.bench import LocalBench
from convfind.problem import ConvProblem
from convfind.problem.activation import Activation
from convfind.runtime.backend import InvokeArgs


def test_candidates_share_the_turns_of_the_copies(
    bench: Any, problem: ConvProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = bench.open("mock-dynamic", "mock-packing")
    workbench = Workbench(problem, handle.session, constant_weights=False)
    used = []

    class Watching:
        def timed(self, args: InvokeArgs) -> float:
            used.append([place.args.x is args.x for place in workbench.sets].index(True))
            return 1.0

    candidates = []
    for solver in handle.registry.solvers_for(handle.target)[0]:
        recipe = solver.solution(problem, handle.target)
        loaded = handle.session.kernels.load_or_raise(recipe.programs)
        candidates.append(workbench.candidate(recipe, loaded))
        monkeypatch.setattr(candidates[-1], "_invoker", Watching())
    copies = len(workbench.sets)
    assert copies > len(candidates) > 1
    for _ in range(copies):
        for candidate in candidates:
            candidate.sample()
    assert len({*used[:copies]}) == copies
    assert used == used[:copies] * len(candidates)


def test_behind_an_activation_both_checks_are_on_what_is_timed(bench: Any) -> None:
    problem = ConvProblem.forward(x=(2, 4, 6, 6), w=(8, 4, 3, 3), padding=1)
    session = bench.open("mock-dynamic").session
    plain = Workbench(problem, session, constant_weights=False)
    assert plain.first.draw.seed != plain.sets[0].draw.seed
    behind = problem.with_epilogue(activation=Activation("relu"))
    fused, again = (Workbench(behind, session, constant_weights=False) for _ in range(2))
    assert fused.first is fused.sets[0]
    assert fused.first.draw.seed != again.first.draw.seed, "nobody knows it before"


def test_nobody_packs_weights_that_somebody_else_has_written(
    bench: Any, problem: ConvProblem
) -> None:
    handle = bench.open("mock-packing")
    workbench = Workbench(problem, handle.session, constant_weights=True)
    workbench.make_ready(verify=True)
    solver = handle.registry.solver("mock-packing")
    recipe = solver.solution(problem, handle.target)
    loaded = handle.session.kernels.load_or_raise(recipe.programs)
    for place in {workbench.first, *workbench.sets}:
        handle.session.device.fill(place.args.w, 1)
    candidate = workbench.candidate(recipe, loaded)
    workbench.restore()
    candidate.verify(solver)
    candidate.confirm(solver)


def test_what_was_compiled_for_nobody_is_kept(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-dynamic")
    (solver,) = handle.registry.solvers_for(handle.target)[0]
    programs = solver.solution(problem, handle.target).programs
    first = LocalBench(problem, handle.session, constant_weights=False)
    for job in first.compile(programs).values():
        job.result()
    first.close()
    second = LocalBench(problem, handle.session, constant_weights=False)
    assert second.is_ready(programs)
    assert handle.session.kernels.compiled == len(programs)


def test_a_closed_handle_keeps_no_program(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-dynamic")
    (solver,) = handle.registry.solvers_for(handle.target)[0]
    programs = solver.solution(problem, handle.target).programs
    handle.find(problem)
    assert handle.session.kernels.pending(programs) == 0
    handle.close()
    assert handle.session.kernels.pending(programs) == len(programs)
