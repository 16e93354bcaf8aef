"""What a find database remembers, and how its layers meet."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry, QuarantineRecord
from convfind.finddb.change import Change
from convfind.finddb.database import FILE_NAME
from convfind.finddb.environment import Environment, Transaction
from convfind.finddb.key import database_key
from convfind.finddb.table import FIND
from convfind.problem import ConvProblem
from convfind.solver.config import Config

Problem = Callable[[int], ConvProblem]
Entry = Callable[..., FindEntry]
OneWarning = Callable[[str], AbstractContextManager[None]]


def times(db: FindDb, target: Target, problem: ConvProblem) -> dict[str, float]:
    """Recorded times by solver, in the order of the entry."""
    found = db.lookup(target, problem)
    assert found is not None
    return {record.solver: record.time_ms for record in found.entry.records}


@pytest.fixture(params=["disk", "memory"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> FindDb:
    """A database on disk, and one in memory: they behave alike."""
    return FindDb.open(tmp_path / "user" if request.param == "disk" else None)


def test_nothing_is_touched_before_first_use(tmp_path: Path) -> None:
    FindDb.open(tmp_path / "user", [tmp_path / "system"]).close()
    assert list(tmp_path.iterdir()) == []


def test_store_then_lookup(db: FindDb, target: Target, problem: Problem, entry: Entry) -> None:
    assert db.lookup(target, problem(1)) is None
    db.store(target, problem(1), entry(slow=2.0, fast=1.0))
    found = db.lookup(target, problem(1))
    assert found is not None
    assert [record.solver for record in found.entry.records] == ["fast", "slow"]
    assert found.entry.records[0].config == {"tile_m": 4}
    assert found.entry.considered == ("fast@1", "slow@1")
    assert found.from_user == {"fast", "slow"}
    assert db.lookup(target, problem(2)) is None


def test_another_device_knows_nothing(
    db: FindDb, target: Target, problem: Problem, entry: Entry
) -> None:
    db.store(target, problem(1), entry(one=1.0))
    other = Target(
        backend="opencl",
        name="Other",
        kind=target.kind,
        vendor="Test",
        platform=target.platform,
        arch=target.arch,
        compute_units=2,
        driver="1",
    )
    assert db.lookup(other, problem(1)) is None


def test_a_store_merges_by_solver_and_version(
    db: FindDb, target: Target, problem: Problem, entry: Entry
) -> None:
    db.store(target, problem(1), entry(a=1.0, b=2.0))
    db.store(target, problem(1), entry(b=0.5, c=3.0))
    db.store(target, problem(1), entry(version=2, c=0.1))
    found = db.lookup(target, problem(1))
    assert found is not None
    assert [(r.solver, r.solver_version, r.time_ms) for r in found.entry.records] == [
        ("c", 2, 0.1),
        ("b", 1, 0.5),
        ("a", 1, 1.0),
        ("c", 1, 3.0),
    ]
    assert found.entry.considered == ("a@1", "b@1", "c@1", "c@2")


def test_a_store_can_replace_what_it_decided_about_and_nothing_else(
    db: FindDb, target: Target, problem: Problem, entry: Entry
) -> None:
    db.store(target, problem(1), entry(a=1.0, b=2.0, failed=0.5))
    decided = FindEntry(records=entry(d=4.0, b=3.0).records, considered=("b@1", "d@1", "failed@1"))
    db.store(target, problem(1), decided, replace=True)
    assert times(db, target, problem(1)) == {"a": 1.0, "b": 3.0, "d": 4.0}
    found = db.lookup(target, problem(1))
    assert found is not None
    assert found.entry.considered == ("a@1", "b@1", "d@1", "failed@1")


def test_a_search_without_result_is_remembered(
    db: FindDb, target: Target, problem: Problem
) -> None:
    db.store(target, problem(1), FindEntry(records=(), considered=("refused@1",)))
    found = db.lookup(target, problem(1))
    assert found is not None
    assert found.entry.records == ()
    assert found.entry.considered == ("refused@1",)


def test_configs(db: FindDb, target: Target, problem: Problem) -> None:
    assert db.config(target, problem(1), "gemm", 1) is None
    db.store_config(target, problem(1), "gemm", 1, Config(tile_m=8), 2.0)
    db.store_config(target, problem(1), "gemm", 2, Config(tile_m=16), 1.5)
    db.store_config(target, problem(1), "fft", 1, Config(radix=4, name="x", fast=True), 3.0)
    db.store_config(target, problem(1), "gemm", 1, Config(tile_m=32), 1.0)
    assert db.config(target, problem(1), "gemm", 1) == Config(tile_m=32)
    assert db.config(target, problem(1), "gemm", 2) == Config(tile_m=16)
    assert db.config(target, problem(1), "fft", 1) == Config(radix=4, name="x", fast=True)
    assert db.config(target, problem(1), "gemm", 3) is None


def test_remove_forgets_records_and_configs_of_one_problem(
    db: FindDb, target: Target, problem: Problem, entry: Entry
) -> None:
    for batch in (1, 2):
        db.store(target, problem(batch), entry(a=1.0))
        db.store_config(target, problem(batch), "a", 1, Config(tile=1), 1.0)
    db.remove(target, problem(1))
    assert db.lookup(target, problem(1)) is None
    assert db.config(target, problem(1), "a", 1) is None
    assert times(db, target, problem(2)) == {"a": 1.0}
    assert db.config(target, problem(2), "a", 1) == Config(tile=1)


def test_quarantine(db: FindDb, target: Target, problem: Problem) -> None:
    def failure(solver: str, reason: str) -> QuarantineRecord:
        return QuarantineRecord(
            solver=solver, solver_version=1, source_hash="h", driver="1", reason=reason
        )

    assert db.quarantined(target, problem(1)) == ()
    db.quarantine(target, problem(1), failure("a", "crash"))
    db.quarantine(target, problem(1), failure("b", "hang"))
    db.quarantine(target, problem(1), failure("a", "wrong-result"))
    assert {r.solver: r.reason for r in db.quarantined(target, problem(1))} == {
        "a": "wrong-result",
        "b": "hang",
    }
    db.release(target, problem(1), "a")
    assert [record.solver for record in db.quarantined(target, problem(1))] == ["b"]
    db.release(target, problem(1), "b")
    assert db.quarantined(target, problem(1)) == ()


def test_entries_in_key_order_by_prefix(
    db: FindDb, target: Target, problem: Problem, entry: Entry
) -> None:
    for batch in range(1, 6):
        db.store(target, problem(batch), entry(a=float(batch)))
    listed = dict(db.entries())
    assert sorted(listed) == list(listed)
    assert [f"1|{target.identity}|{problem(batch).key}" in listed for batch in range(1, 6)] == [
        True
    ] * 5
    assert len(dict(db.entries(f"1|{target.identity}|"))) == 5
    assert dict(db.entries("1|hip")) == {}


def test_a_key_too_long_for_lmdb(db: FindDb, problem: Problem, entry: Entry) -> None:
    def device(name: str) -> Target:
        return Target("opencl", name, "cpu", "v", "p", "a", 1, "1")  # type: ignore[arg-type]

    first, second = device("x" * 600 + "1"), device("x" * 600 + "2")
    db.store(first, problem(1), entry(a=1.0))
    db.store(second, problem(1), entry(b=2.0))
    assert times(db, first, problem(1)) == {"a": 1.0}
    assert times(db, second, problem(1)) == {"b": 2.0}
    assert dict(db.entries("1|opencl|p|xxx")) == dict(db.entries())
    assert [key for key, _ in db.entries(f"1|opencl|p|{'x' * 600}2")] == [
        f"1|{second.identity}|{problem(1).key}"
    ]


def test_entries_of_many_batches(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    db = FindDb.open(tmp_path)
    count = 2050

    def fill(environment: Environment, transaction: Transaction) -> None:
        change = Change(environment.table, transaction)
        for batch in range(1, count + 1):
            key = database_key(target, problem(batch))
            change.put(FIND.name, key, FIND.pack(key, entry(a=float(batch)), change))

    assert db._user.file is not None
    assert db._user.file.write(fill)
    assert {found.records[0].time_ms for _, found in db.entries()} == set(
        map(float, range(1, count + 1))
    )


def test_system_records_show_through_per_solver(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    for name, records in (("first", entry(a=5.0, b=6.0)), ("second", entry(b=1.0, c=7.0))):
        with FindDb.open(tmp_path / name) as shipped:
            shipped.store(target, problem(1), records)
    system = [tmp_path / "first", tmp_path / "second" / FILE_NAME]
    with FindDb.open(None, system) as db:
        assert times(db, target, problem(1)) == {"a": 5.0, "b": 6.0, "c": 7.0}
        found = db.lookup(target, problem(1))
        assert found is not None
        assert found.from_user == frozenset()
        db.store(target, problem(1), entry(b=0.5))
        db.store(target, problem(1), entry(version=2, a=0.1))
        found = db.lookup(target, problem(1))
        assert found is not None
        assert [(r.solver, r.solver_version, r.time_ms) for r in found.entry.records] == [
            ("a", 2, 0.1),
            ("b", 1, 0.5),
            ("a", 1, 5.0),
            ("c", 1, 7.0),
        ]
        assert found.from_user == {"a", "b"}
        assert found.entry.considered == ("a@1", "a@2", "b@1", "c@1")


def test_system_configs_and_quarantine_show_through(
    tmp_path: Path, target: Target, problem: Problem
) -> None:
    bad = QuarantineRecord(solver="a", solver_version=1, source_hash="", driver="", reason="x")
    with FindDb.open(tmp_path / "system") as shipped:
        shipped.store_config(target, problem(1), "a", 1, Config(tile=1), 1.0)
        shipped.store_config(target, problem(1), "b", 1, Config(tile=2), 1.0)
        shipped.quarantine(target, problem(1), bad)
    with FindDb.open(tmp_path / "user", [tmp_path / "system"]) as db:
        db.store_config(target, problem(1), "a", 1, Config(tile=3), 1.0)
        assert db.config(target, problem(1), "a", 1) == Config(tile=3)
        assert db.config(target, problem(1), "b", 1) == Config(tile=2)
        assert db.quarantined(target, problem(1)) == (bad,)


def test_system_databases_are_not_written(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path / "system") as shipped:
        shipped.store(target, problem(1), entry(a=1.0))
    (tmp_path / "system" / f"{FILE_NAME}-lock").unlink()
    before = (tmp_path / "system" / FILE_NAME).read_bytes()
    with FindDb.open(tmp_path / "user", [tmp_path / "system"]) as db:
        db.store(target, problem(1), entry(b=1.0))
        db.remove(target, problem(1))
        assert times(db, target, problem(1)) == {"a": 1.0}
    assert (tmp_path / "system" / FILE_NAME).read_bytes() == before
    assert [path.name for path in (tmp_path / "system").iterdir()] == [FILE_NAME]


def test_the_user_database_may_also_be_named_as_a_system_one(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path, [tmp_path]) as db:
        db.store(target, problem(1), entry(a=1.0))
        assert times(db, target, problem(1)) == {"a": 1.0}
        assert db.health() == []


def test_one_file_opened_twice_in_a_process(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    link = tmp_path / "link"
    (tmp_path / "user").mkdir()
    link.symlink_to(tmp_path / "user")
    first, second = FindDb.open(tmp_path / "user"), FindDb.open(link)
    first.store(target, problem(1), entry(a=1.0))
    assert times(second, target, problem(1)) == {"a": 1.0}
    first.close()
    second.store(target, problem(1), entry(b=2.0))
    assert times(first, target, problem(1)) == {"a": 1.0, "b": 2.0}
    first.close()
    second.close()
    assert first.health() == second.health() == []


def test_a_read_only_user_in_the_same_process_gets_its_writes_remembered(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry, one_warning: OneWarning
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0))
    reader, writer = FindDb.open(None, [tmp_path]), FindDb.open(tmp_path)
    assert times(reader, target, problem(1)) == {"a": 1.0}
    with one_warning("reading only"):
        writer.store(target, problem(1), entry(b=2.0))
    assert times(writer, target, problem(1)) == {"a": 1.0, "b": 2.0}
    reader.close()
    writer.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_folders_and_files_are_private(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path / "a" / "b") as db:
        db.store(target, problem(1), entry(a=1.0))
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "a" / "b").iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_threads_share_a_database(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    small_db: Callable[[Path], FindDb],
) -> None:
    db = small_db(tmp_path)
    problems = [problem(batch) for batch in range(1, 41)]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for one in problems:
                db.store(target, one, entry(**{f"solver-{number}": 1.0}))
                assert f"solver-{number}" in times(db, target, one)
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    for one in problems:
        assert set(times(db, target, one)) == {f"solver-{number}" for number in range(6)}
    db.close()
