"""The quarantine from the command line: what is in it, and lifting it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry, FindRecord, QuarantineRecord
from convfind.problem import ConvProblem

Make = Callable[..., FindRecord]


def failure(solver: str, **fields: Any) -> QuarantineRecord:
    given: dict[str, Any] = {"created": 1_700_000_000, "detail": "error 0.5\nmore"} | fields
    return QuarantineRecord(
        solver=solver,
        solver_version=2,
        source_hash="abc",
        driver="driver 1",
        reason="wrong-result",
        **given,
    )


@pytest.fixture
def folder(target: Target, problem: ConvProblem, record: Make, tmp_path: Path) -> Path:
    """Two solvers that failed for a problem, one also for another and on another device."""
    other = replace(target, name="Other Device", identity="")
    with FindDb.open(tmp_path / "user") as database:
        entry = FindEntry(records=(record("a"),), considered=("a@1", "b@2", "c@2"))
        database.store(target, problem, entry)
        for solver in ("b", "c"):
            database.quarantine(target, problem, failure(solver))
        database.quarantine(target, problem.with_batch(1), failure("b"))
        database.quarantine(other, problem, failure("b"))
    return tmp_path / "user"


def left(shell: Any, *words: object) -> list[tuple[str, str, str]]:
    listed = shell.json("db", "quarantine", "list", *words)["quarantined"]
    return sorted((one["solver"], one["problem"], one["device"].split("|")[2]) for one in listed)


def test_it_is_listed_with_its_reason(shell: Any, folder: Path, problem: ConvProblem) -> None:
    assert len(left(shell)) == 4
    text = shell("db", "quarantine", "list", "--solver", "c").stdout
    assert "wrong-result" in text.replace("\n", "")
    (one,) = shell.json("db", "quarantine", "list", "--solver", "c")["quarantined"]
    assert one["problem"] == problem.key
    assert one["source_hash"] == "abc"
    assert (one["solver_version"], one["driver"], one["created"]) == (2, "driver 1", 1_700_000_000)
    assert one["detail"] == "error 0.5\nmore"


def test_it_is_listed_by_problem_and_device(shell: Any, folder: Path, problem: ConvProblem) -> None:
    assert len(left(shell, "--problem", problem.key)) == 3
    assert len(left(shell, "--problem", problem.key, "--device", "test device")) == 2
    line = "conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1"
    assert left(shell, "--problem", line) == [("b", problem.with_batch(1).key, "Test Device")]
    assert "no solver" in shell("db", "quarantine", "list", "--solver", "z").stdout
    assert "magic" in shell("db", "quarantine", "list", "--problem", "magic", code=2).stderr


def test_lifting_lets_a_solver_be_tried_again(
    shell: Any, folder: Path, target: Target, problem: ConvProblem
) -> None:
    words = ("db", "quarantine", "lift", "--solver", "b", "--device", "Test Device", "--problem")
    assert shell.json(*words, problem.key)["lifted"] == 1
    assert [solver for solver, *_ in left(shell)] == ["b", "b", "c"]
    with FindDb.open(folder) as database:
        found = database.lookup(target, problem)
        assert found is not None
        assert found.entry.considered == ("a@1", "c@2")
        assert [one.solver for one in found.entry.records] == ["a"]
        assert [one.solver for one in database.quarantined(target, problem)] == ["c"]


def test_all_are_lifted_only_on_request(shell: Any, folder: Path) -> None:
    assert "--all" in shell("db", "quarantine", "lift", code=2).stderr
    assert len(left(shell)) == 4
    assert "4 lifted" in shell("db", "quarantine", "lift", "--all").stdout
    assert left(shell) == []
    assert "no such quarantine" in shell.error("db", "quarantine", "lift", "--all")
