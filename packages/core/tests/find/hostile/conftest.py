"""Solvers that do what none should, beside honest ones that must not suffer from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from convfind.find.result import FindResult
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import Solver
from convfind.testing.mock_functions import MOCK_FUNCTIONS

#: What finds whose candidates all work would return, fastest first.
HONEST = ("mock-hungry", "mock-packing", "mock-dynamic")


Hostile = Callable[..., FindResult]


@pytest.fixture
def hostile(bench: Any, problem: ConvProblem) -> Hostile:
    """Find with a hostile solver and honest ones; the honest ones must come out as ever.

    Returns the result; what the database keeps about the problem is compared here.
    """

    def find(
        solver: Solver,
        kernels: Mapping[str, Callable[..., None]] | None = None,
        *,
        of: ConvProblem = problem,
        quarantined: bool = False,
        honest: tuple[str, ...] = HONEST,
        **policy: Any,
    ) -> FindResult:
        bench.backend.functions = {**MOCK_FUNCTIONS, **(kernels or {})}
        handle = bench.open(*honest, extra=[solver])
        found: FindResult = handle.find(of, mode="normal", **policy)
        assert {solution.solver for solution in found.solutions} == set(honest)
        assert all(solution.error < 1e-6 for solution in found.solutions if solution.error)
        entry, _, quarantine = handle.database.own(handle.target, of)
        assert {record.solver for record in entry.records} == set(honest)
        names = {record.solver for record in quarantine}
        assert names == ({solver.solver_id} if quarantined else set())
        why = found.rejected[solver.solver_id]
        assert why.reason is (Reason.WRONG_RESULT if quarantined else Reason.SOLVER_ERROR)
        assert len(str(why)) < 500
        return found

    return find
