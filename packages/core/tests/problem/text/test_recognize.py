"""Any text of a problem is told apart and read."""

from __future__ import annotations

import pytest

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.problem.text import (
    format_driver_line,
    format_miopen_key,
    format_network_config,
    parse_key,
    parse_problem,
)

PROBLEM = ConvProblem.backward_data((2, 4, 9, 9), (8, 4, 3, 3), stride=2, dtype="float16")


@pytest.mark.parametrize("form", [format_network_config, format_miopen_key, format_driver_line])
def test_every_form_is_recognized(form: object) -> None:
    assert callable(form)
    text = form(PROBLEM)
    assert parse_problem(text) == (PROBLEM,)
    assert parse_problem(f"  {text}\n") == (PROBLEM,)


def test_a_driver_line_may_give_several_problems() -> None:
    assert len(parse_problem("/usr/bin/MIOpenDriver conv -F 6")) == 2


def test_the_factories_read_texts() -> None:
    assert ConvProblem.from_key(PROBLEM.key) == PROBLEM
    assert ConvProblem.from_key(format_miopen_key(PROBLEM)) == PROBLEM
    assert ConvProblem.from_driver(format_driver_line(PROBLEM)) == PROBLEM


@pytest.mark.parametrize("text", ["", "hello", "64x64", "-n 3", "fwd", "resnet50.txt"])
def test_other_texts_are_refused_with_examples(text: str) -> None:
    with pytest.raises(ProblemError, match=r"problem: .*network config.*MIOpen key.*MIOpenDriver"):
        parse_problem(text)
    with pytest.raises(ProblemError, match=r"key: .*network config.*MIOpen key"):
        parse_key(text)
