"""``convfind explain``: a line for every solver, nothing runs."""

from __future__ import annotations

from typing import Any

SHAPES = ("--x", "2,4,6,6", "--w", "4,4,3,3", "--padding", "1")


def test_every_solver_has_a_row_and_nothing_runs(shell: Any) -> None:
    document = shell.json("explain", *SHAPES)
    rows = {row["solver"]: row for row in document["solvers"]}
    assert rows["mock-dynamic"]["applicable"]
    assert rows["mock-dynamic"]["wti"] == 0.5
    assert rows["mock-dynamic"]["recorded"] is None
    assert rows["mock-static"]["reason"] == "not-dynamic"
    assert document["policy"]["mode"] == "DYNAMIC_HYBRID"
    counters = shell.backend.counters
    assert (counters.compiles, counters.launches) == (0, 0)


def test_what_the_database_holds_is_shown(shell: Any) -> None:
    shell("find", *SHAPES)
    rows = {row["solver"]: row for row in shell.json("explain", *SHAPES)["solvers"]}
    assert rows["mock-dynamic"]["recorded"]["time_ms"] > 0


def test_forecasts_are_shown_with_what_they_rest_on(shell: Any) -> None:
    assert "forecast ms" not in shell("explain", "--mode", "FAST", *SHAPES).stdout
    shell("find", *SHAPES)
    other = ("--x", "4,4,6,6", *SHAPES[2:])
    text = shell("explain", "--mode", "FAST", *other).stdout
    assert "forecast ms" in text
    (line,) = [line for line in text.splitlines() if line.startswith("mock-dynamic ")]
    assert line.rstrip().endswith("record of another batch size")


def test_people_get_those_who_take_it_and_how_many_refuse_it_why(shell: Any) -> None:
    text = shell("explain", "--workspace-limit", "1K", *SHAPES).stdout
    assert "policy   DYNAMIC_HYBRID, workspace_limit: 1024" in text
    assert "refused  by 1: compiled for one shape, and the policy allows dynamic" in text
    assert "mock-static" not in text
    assert "mock-dynamic" in text


def test_all_solvers_are_listed_on_request(shell: Any) -> None:
    text = shell("explain", "--all", *SHAPES).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("mock-static")]
    assert "compiled for one shape" in line
    assert "refused  by" not in text


def test_a_transposed_problem_shows_what_solvers_see(shell: Any) -> None:
    text = shell("explain", "--x", "1,4,5,5", "--w", "4,3,3,3", "--transpose").stdout
    assert "as       bwd-data-1x3x7x7" in text


def test_one_direction_at_a_time(shell: Any) -> None:
    assert "one direction" in shell("explain", "--direction", "all", *SHAPES, code=2).stderr
