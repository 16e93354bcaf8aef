"""Solvers that mix values: core refuses them where accuracy is strict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import asking
from convfind.solver.applicability import APPLICABLE, Rejected
from convfind.testing import MOCK_TARGET, MockSolver
from convfind.types import AccuracyClass


class Tiles(MockSolver):
    """Transforms tiles."""

    solver_id = "mock-tiles"

    def error_reach(self, problem: ConvProblem) -> int:
        return 3


class Halves(MockSolver):
    """Adds what it multiplies later."""

    solver_id = "mock-halves"

    def mixes_values(self, problem: ConvProblem) -> bool:
        return problem.groups > 1


class Plain(MockSolver):
    """The direct formula."""

    solver_id = "mock-plain"


@pytest.mark.parametrize(
    ("solver", "groups", "is_refused"),
    [(Tiles(), 1, True), (Halves(), 1, False), (Halves(), 2, True), (Plain(), 2, False)],
)
def test_who_mixes_values_is_refused_with_strict_accuracy_alone(
    solver: MockSolver, groups: int, is_refused: bool
) -> None:
    problem = ConvProblem.forward((1, 4, 8, 8), (4, 4 // groups, 3, 3), groups=groups)
    for accuracy in (AccuracyClass.NORMAL, AccuracyClass.RELAXED):
        assert (
            asking.applicability(solver, replace(problem, accuracy=accuracy), MOCK_TARGET)
            is APPLICABLE
        )
    answer = asking.applicability(
        solver, replace(problem, accuracy=AccuracyClass.STRICT), MOCK_TARGET
    )
    if is_refused:
        assert isinstance(answer, Rejected)
        assert answer.reason is Reason.ACCURACY
        assert "accuracy=strict" in answer.detail
    else:
        assert answer is APPLICABLE
