"""Records under the identity that a CPU had before it said its model are still its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry, places

Problem = Callable[[int], Any]
Entry = Callable[..., FindEntry]


@pytest.fixture
def now(target: Target) -> Target:
    """The device of the other tests, which says its model now."""
    return replace(target, identity="", cpu_model="family 25 model 17")


def solvers(db: FindDb, target: Target, problem: Any) -> list[str]:
    stored = db.lookup(target, problem)
    return [] if stored is None else [record.solver for record in stored.entry.records]


def test_each_layer_answers_by_the_former_identity(
    tmp_path: Path, target: Target, now: Target, problem: Problem, entry: Entry
) -> None:
    for name, times in (("shipped", {"a": 1.0, "b": 2.0}), ("user", {"b": 3.0})):
        with FindDb.open(tmp_path / name) as db:
            db.store(target, problem(1), entry(**times))
    with FindDb.open(tmp_path / "user", [tmp_path / "shipped"]) as db:
        assert solvers(db, now, problem(1)) == ["a", "b"]
        stored = db.lookup(now, problem(1))
        assert stored is not None
        assert stored.from_user == {"b"}
        assert db.layers(now, problem(1)) == db.layers(target, problem(1))
        assert solvers(db, now, problem(2)) == []
        assert db.devices() == (target.identity,)


def test_the_first_new_record_takes_the_former_ones_along(
    tmp_path: Path, target: Target, now: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0, b=2.0))
        db.store(now, problem(1), entry(c=0.5))
        assert solvers(db, now, problem(1)) == ["c", "a", "b"]
        assert solvers(db, target, problem(1)) == ["a", "b"]  # as an older version reads it
        other = replace(now, identity="", cpu_model="family 26 model 2")
        db.store(other, problem(1), entry(d=0.1))
        assert "d" not in solvers(db, now, problem(1))
        assert set(db.devices()) == {target.identity, now.identity, other.identity}
        db.remove(now, problem(1))
        assert solvers(db, now, problem(1)) == []


def test_what_others_write_under_either_identity_is_seen(
    tmp_path: Path,
    target: Target,
    now: Target,
    problem: Problem,
    entry: Entry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "_LOOK_SECONDS", -1.0)
    with FindDb.open(tmp_path) as db, FindDb.open(tmp_path) as writer:
        assert solvers(db, now, problem(1)) == []
        writer.store(target, problem(1), entry(a=1.0))
        assert solvers(db, now, problem(1)) == ["a"]
        writer.store(now, problem(1), entry(b=2.0))
        assert solvers(db, now, problem(1)) == ["a", "b"]
