"""Checks of operators see what is wrong where operands or results are infinite."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.problem import Activation
from convfind_operators.element_type import ElementType
from convfind_operators.elementwise import ActivationProblem
from convfind_operators.testing.check_operator import _wrong


@pytest.mark.parametrize(
    ("activation", "x", "right", "wrong"),
    [("sigmoid", -np.inf, 0, 7), ("relu", np.inf, np.inf, 0), ("relu", np.inf, np.inf, -np.inf)],
)
def test_no_number_is_right_beside_infinity(
    activation: str, x: float, right: float, wrong: float
) -> None:
    kind = ElementType.FLOAT32
    problem = ActivationProblem(x=(1,), activation=Activation(activation), dtype=kind)
    inputs = {"x": np.array([x])}
    results = problem.reference(inputs)
    allowed = problem.allowed_error(inputs, results)["y"]
    operand = problem.operand("y")
    assert _wrong(operand, np.array([right], np.float32), results["y"], allowed) == []
    assert _wrong(operand, np.array([wrong], np.float32), results["y"], allowed)


def test_no_number_is_right_where_the_bound_of_an_infinite_result_says_so() -> None:
    problem = ActivationProblem(x=(3,), activation=Activation("relu"), dtype=ElementType.FLOAT32)
    operand = problem.operand("y")
    right, found = np.array([np.inf, -np.inf, 1.0]), np.full(3, np.nan, np.float32)
    (complaint,) = _wrong(operand, found, right, np.full(3, np.inf))
    assert complaint.startswith("3 elements")
    (complaint,) = _wrong(operand, found, right, np.full(3, np.nan))
    assert complaint.startswith("1 elements of y are wrong; (2,)")
