"""Packing of weights: forecasts have it where it is measured, and leave it out where it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from convfind.find.packing import Packing
from convfind.finddb import FindEntry, FindRecord
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.solver import versioned_id
from convfind.solver.recipe import Recipe
from convfind.testing.solvers import MockTimed


class Packer(MockTimed):
    """Packs ten megabytes, for which a core of a CPU takes 1.4 ms, and four 0.35."""

    def solution(self, *arguments: Any, **named: Any) -> Recipe:
        """The recipe of any other, and memory for weights."""
        return replace(super().solution(*arguments, **named), packed=10_000_000)


PACKER, PLAIN = Packer("packer", 40, 0.3), MockTimed("plain", 50, 0.9)
CLOSE = MockTimed("close", 52, 0.8)


@pytest.mark.parametrize("name", ["packer", "packer@1", "packer+epilogue", "packer+epilogue@2"])
def test_times_are_brought_to_those_that_the_policy_measures(
    bench: Any, problem: ConvProblem, name: str
) -> None:
    session = bench.open("mock-static").session
    without, with_packing = (
        Packing(problem, session, [PACKER, PLAIN], Policy().with_changes(constant_weights=one))
        for one in (True, False)
    )
    assert without.as_measured({name: 2.0, "plain": 2.0}) == pytest.approx(
        {name: 1.65, "plain": 2.0}
    )
    assert without.as_measured({name: 0.4}) == pytest.approx({name: 0.08})
    assert without.as_measured({name: 1.65}, constant_weights=True) == {name: 1.65}
    assert with_packing.as_measured({name: 1.65}, constant_weights=True) == pytest.approx(
        {name: 2.0}
    )
    assert with_packing.as_measured({name: 2.0}) == {name: 2.0}


def test_who_packs_longer_than_it_runs_is_found_where_weights_are_constant(
    bench: Any, problem: ConvProblem
) -> None:
    handle = bench.open("mock-static", extra=(PACKER, PLAIN, CLOSE))
    assert "packer" in handle.find(problem).rejected
    assert handle.find(problem, constant_weights=True).best.solver == "packer"


@pytest.mark.parametrize(("is_constant", "winner"), [(True, "plain"), (False, "packer")])
def test_records_with_packing_say_what_is_fast_without(
    bench: Any, problem: ConvProblem, is_constant: bool, winner: str
) -> None:
    handle = bench.open("mock-static")
    solvers = (Packer("packer", 40), MockTimed("plain", 50))
    records = tuple(
        FindRecord(
            solver=solver.solver_id,
            solver_version=solver.version,
            package="mock 1",
            algorithm="direct",
            time_ms=time,
            constant_weights=is_constant,
        )
        for solver, time in zip(solvers, (0.5, 0.4), strict=True)
    )
    names = tuple(map(versioned_id, solvers))
    other = problem.with_batch(4)
    handle.database.store(handle.target, other, FindEntry(records=records, considered=names))
    found = bench.open("mock-static", extra=solvers).find(problem, constant_weights=True)
    assert found.best.solver == winner
    loser = {"plain": "packer", "packer": "plain"}[winner]
    assert "record of another batch size" in found.rejected[loser].detail
