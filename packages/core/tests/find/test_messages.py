"""What a find says while it works, and the line of each convolution that runs."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from convfind.log import logger
from convfind.problem import ConvProblem


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_find_says_what_it_does(
    bench: Any, problem: ConvProblem, caplog: pytest.LogCaptureFixture
) -> None:
    handle = bench.open("mock-dynamic", "mock-wrong")
    with caplog.at_level(logging.INFO, logger.name):
        best = handle.find(problem, "NORMAL").best
    said = _said(caplog)
    assert said[0].startswith(f"{problem.key} on {handle.target.name}: 2 candidates, ")
    assert re.fullmatch(r"\d+ programs made ready in .* s, \d+ of them compiled", said[1])
    assert any(re.match(r"mock-dynamic: .* ms, \d+ samples, error ", line) for line in said)
    assert any(line.startswith("mock-wrong: its result was wrong") for line in said)
    assert said[-1].startswith(f"{problem.key}: {best.solver}, ")
    assert "NORMAL answered by measured" in said[-1]


def test_an_answer_from_the_database_is_one_line(
    bench: Any, problem: ConvProblem, caplog: pytest.LogCaptureFixture
) -> None:
    bench.open().find(problem)
    with caplog.at_level(logging.INFO, logger.name):
        bench.open().find(problem)
    (line,) = _said(caplog)
    assert "answered by user-db" in line
    assert "0 compiled, 0 measured" in line


def test_debugging_adds_each_solver_that_does_not_take_the_problem(
    bench: Any, problem: ConvProblem, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger.name):
        rejected = bench.open().find(problem, deny=["mock-dynamic"]).rejected
    said = _said(caplog)
    assert "mock-dynamic" in rejected
    assert {f"{solver}: {why}" for solver, why in rejected.items()} <= set(said)


def test_each_run_is_a_line_where_asked_for(
    bench: Any,
    problem: ConvProblem,
    tensors: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    handle = bench.open("mock-dynamic", "mock-packing", verbose=True)
    found = handle.find(problem, "NORMAL").solutions
    assert capsys.readouterr().err == ""  # a find measures, it does not run
    for solution in found:
        plain = handle.run(solution, **tensors)
        bound = handle.bind(solution, w=tensors["w"]).run(x=tensors["x"])
        assert (plain == bound).all()
        lines = capsys.readouterr().err.splitlines()
        line = re.escape(f"convfind: {solution.solver} {problem.key} ") + r"\S+ ms"
        assert len(lines) == 2
        assert all(re.fullmatch(line, one) for one in lines)


def test_runs_are_silent_unless_asked_for(
    bench: Any,
    problem: ConvProblem,
    tensors: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    handle = bench.open("mock-dynamic")
    handle.run(handle.find(problem).best, **tensors)
    assert capsys.readouterr() == ("", "")
