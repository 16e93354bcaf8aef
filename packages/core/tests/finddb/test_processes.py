"""Processes that share a database: forks, many writers, and those that die at a bad moment."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import lmdb
import pytest

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry
from convfind.finddb.database import FILE_NAME, LAYOUT
from convfind.finddb.environment import Environment, Layout, acquire, release
from convfind.finddb.file_check import folder_lock
from convfind.problem import ConvProblem

Problem = Callable[[int], ConvProblem]
Entry = Callable[..., FindEntry]
Spawn = Callable[[Callable[[], None]], int]
OneWarning = Callable[[str], AbstractContextManager[None]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Run a function in a forked child that then leaves at once; gives its process id."""
    children: list[int] = []

    def run(work: Callable[[], None]) -> int:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work()
                status = 0
            except BaseException:
                traceback.print_exc()  # an exit status alone says nothing
            finally:
                os._exit(status)
        children.append(child)
        return child

    yield run
    for child in children:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def exit_status(child: int) -> int:
    """Wait for a child."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def solvers(db: FindDb, target: Target, one: ConvProblem) -> set[str]:
    """Ids of the solvers recorded for a problem."""
    found = db.lookup(target, one)
    return set() if found is None else {record.solver for record in found.entry.records}


def test_a_fork_after_opening(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    in_child: Callable[..., Any],
    spawn: Spawn,
) -> None:
    db = FindDb.open(tmp_path)
    db.store(target, problem(1), entry(parent=1.0))

    def work() -> list[str]:
        seen = solvers(db, target, problem(1))
        db.store(target, problem(1), entry(child=2.0))
        nested = spawn(lambda: db.store(target, problem(2), entry(grandchild=1.0)))
        assert exit_status(nested) == 0
        db.close()
        return [*sorted(seen), *sorted(solvers(db, target, problem(2)))]

    assert in_child(work) == ["parent", "grandchild"]
    assert solvers(db, target, problem(1)) == {"parent", "child"}
    db.store(target, problem(1), entry(again=3.0))
    assert solvers(db, target, problem(1)) == {"parent", "child", "again"}
    assert db.health() == []
    db.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forks_while_threads_read_and_write(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry, spawn: Spawn
) -> None:
    db = FindDb.open(tmp_path)
    shadow = FindDb.open(None)
    done = threading.Event()

    def work(number: int) -> None:
        while not done.is_set():
            for one in (db, shadow):
                one.store(target, problem(1), entry(**{f"thread{number}": 1.0}))
                one.lookup(target, problem(1))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()

    def child(number: int) -> None:
        for one in (db, shadow):
            one.store(target, problem(2), entry(**{f"child{number}": 1.0}))
            assert one.lookup(target, problem(2)) is not None

    children = []
    for number in range(20):
        children.append(spawn(lambda number=number: child(number)))  # type: ignore[misc]
        time.sleep(0.005)
    assert [exit_status(one) for one in children] == [0] * 20
    done.set()
    for thread in threads:
        thread.join()
    assert solvers(db, target, problem(2)) == {f"child{number}" for number in range(20)}
    assert db.health() == []
    db.close()


def test_many_writers_lose_nothing(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    small_db: Callable[[Path], FindDb],
    spawn: Spawn,
) -> None:
    def work(number: int) -> None:
        with warnings.catch_warnings(), small_db(tmp_path) as db:
            warnings.simplefilter("error")
            for batch in range(1, 101):
                db.store(target, problem(batch), entry(**{f"process{number}": float(number)}))
                assert f"process{number}" in solvers(db, target, problem(batch))

    children = [spawn(lambda number=number: work(number)) for number in range(4)]  # type: ignore[misc]
    assert [exit_status(child) for child in children] == [0] * 4
    with FindDb.open(tmp_path) as db:
        for batch in range(1, 101):
            found = db.lookup(target, problem(batch))
            assert found is not None
            assert {(r.solver, r.time_ms) for r in found.entry.records} == {
                (f"process{number}", float(number)) for number in range(4)
            }
            assert len(found.entry.considered) == 4
        assert db.health() == []


def test_the_map_grows_here_and_follows_when_it_grew_elsewhere(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    small_db: Callable[[Path], FindDb],
    spawn: Spawn,
) -> None:
    db = small_db(tmp_path)
    db.store(target, problem(1), entry(a=1.0))

    def grow() -> None:
        with small_db(tmp_path) as other:
            for batch in range(2, 401):
                other.store(target, problem(batch), entry(b=1.0))

    assert exit_status(spawn(grow)) == 0
    assert (tmp_path / FILE_NAME).stat().st_size > 1 << 16
    assert solvers(db, target, problem(400)) == {"b"}
    db.store(target, problem(1), entry(c=1.0))
    assert solvers(db, target, problem(1)) == {"a", "c"}
    assert exit_status(spawn(grow)) == 0
    for batch in range(401, 801):
        db.store(target, problem(batch), entry(d=1.0))
    assert len(dict(db.entries())) == 800
    assert db.health() == []
    db.close()


def test_a_database_that_another_process_makes_grow_while_it_is_opened(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    small_db: Callable[[Path], FindDb],
    spawn: Spawn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with small_db(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0))
    begin, tell = os.pipe()
    told, grown = os.pipe()

    def grow() -> None:
        with small_db(tmp_path) as other:
            other.store(target, problem(1), entry(b=1.0))
            os.write(grown, b"!")  # it has the file open, so that the lock of the folder is free
            os.read(begin, 1)
            for batch in range(2, 401):
                other.store(target, problem(batch), entry(b=1.0))
        os.write(grown, b"!")

    child = spawn(grow)
    assert os.read(told, 1) == b"!"
    open_tables = Environment._open_tables

    def open_tables_late(opened: Environment, layout: Layout) -> dict[str, lmdb._Database]:
        patch.undo()
        os.write(tell, b"!")
        assert os.read(told, 1) == b"!"
        return open_tables(opened, layout)

    with warnings.catch_warnings(), monkeypatch.context() as patch, small_db(tmp_path) as db:
        warnings.simplefilter("error")
        patch.setattr(Environment, "_open_tables", open_tables_late)
        assert solvers(db, target, problem(400)) == {"b"}
        db.store(target, problem(400), entry(c=1.0))
    assert exit_status(child) == 0
    with FindDb.open(tmp_path) as db:
        assert solvers(db, target, problem(400)) == {"b", "c"}
        assert db.health() == []
    for descriptor in (begin, tell, told, grown):
        os.close(descriptor)


@pytest.mark.parametrize("times", [1, 3])
def test_a_database_that_grows_while_lmdb_maps_it(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0))
    opened, refusals = lmdb.open, iter(range(times))

    def outgrown(*args: Any, **options: Any) -> lmdb.Environment:
        if next(refusals, None) is not None:
            raise lmdb.MapResizedError("grew")
        return opened(*args, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(lmdb, "open", outgrown)
        with FindDb.open(tmp_path) as db:
            db.store(target, problem(1), entry(b=1.0))
    monkeypatch.undo()
    with FindDb.open(tmp_path) as db:
        assert solvers(db, target, problem(1)) == {"a", "b"}


def test_a_file_that_says_for_ever_that_it_grows_is_given_up(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    one_warning: OneWarning,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0))

    def outgrown(*args: Any, **options: Any) -> lmdb.Environment:
        raise lmdb.MapResizedError("grew")

    monkeypatch.setattr(lmdb, "open", outgrown)
    with FindDb.open(tmp_path) as db, one_warning("in memory only"):
        db.store(target, problem(1), entry(b=1.0))
        assert solvers(db, target, problem(1)) == {"b"}


def test_killed_fifty_times_while_storing(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry, spawn: Spawn
) -> None:
    numbers = random.Random(0)
    problems = [problem(batch) for batch in range(1, 21)]
    expected: dict[int, int] = {}

    for life in range(50):
        reader, writer = os.pipe()

        def store_for_ever(life: int = life, writer: int = writer) -> None:
            db = FindDb.open(tmp_path)
            for number in range(10**6):
                place = number % len(problems)
                db.store(target, problems[place], entry(a=float(life * 10**6 + number), b=1e12))
                os.write(writer, number.to_bytes(4, "big"))

        child = spawn(store_for_ever)
        os.close(writer)
        acknowledged = os.read(reader, 4)
        time.sleep(numbers.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        assert exit_status(child) == -signal.SIGKILL
        with os.fdopen(reader, "rb") as pipe:
            acknowledged += pipe.read()
        for start in range(0, len(acknowledged), 4):
            number = int.from_bytes(acknowledged[start : start + 4], "big")
            expected[number % len(problems)] = life * 10**6 + number
        in_flight = (number + 1) % len(problems)
        with FindDb.open(tmp_path) as db:
            for place, stored in expected.items():
                found = db.lookup(target, problems[place])
                assert found is not None
                assert [record.solver for record in found.entry.records] == ["a", "b"]
                time_ms = int(found.entry.records[0].time_ms)
                if place == in_flight and time_ms == life * 10**6 + number + 1:
                    expected[place] = stored = time_ms  # it was stored, only not acknowledged
                assert time_ms == stored
            assert db.health() == []


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_a_process_that_died_in_a_transaction_holds_nobody_up(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry, role: str, spawn: Spawn
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0))
    ready, signal_ready = os.pipe()

    def hold() -> None:
        held = acquire(tmp_path / FILE_NAME, LAYOUT, writable=True, map_size=1 << 20)

        def stay(transaction: object) -> None:
            os.write(signal_ready, b"!")
            time.sleep(3600)

        (held.write if role == "writer" else held.read)(stay)

    survivor = FindDb.open(tmp_path)  # keeps the lock file in use, so that nobody starts it anew
    assert solvers(survivor, target, problem(1)) == {"a"}
    child = spawn(hold)
    os.close(signal_ready)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    os.kill(child, signal.SIGKILL)
    assert exit_status(child) == -signal.SIGKILL

    survivor.store(target, problem(1), entry(b=2.0))
    assert solvers(survivor, target, problem(1)) == {"a", "b"}
    assert survivor.health() == []

    def sweep() -> None:
        opened = acquire(tmp_path / FILE_NAME, LAYOUT, writable=True, map_size=1 << 20)
        assert opened._lmdb is not None
        assert str(child) not in opened._lmdb.readers()
        release(opened)

    assert exit_status(spawn(sweep)) == 0
    survivor.close()


@pytest.mark.parametrize("holds", ["transaction", "folder"])
def test_a_stopped_process_keeps_nobody_from_reading(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry, holds: str, spawn: Spawn
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0))

    def stop(transaction: object = None) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def hold() -> None:
        if holds == "folder":
            with folder_lock(tmp_path):
                stop()
        held = acquire(tmp_path / FILE_NAME, LAYOUT, writable=True, map_size=1 << 20)
        held.write(stop)
        release(held)

    child = spawn(hold)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    with FindDb.open(tmp_path) as db:
        assert solvers(db, target, problem(1)) == {"a"}
        assert db.lookup(target, problem(2)) is None
    os.kill(child, signal.SIGKILL)
    assert exit_status(child) == -signal.SIGKILL
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(b=1.0))
        assert solvers(db, target, problem(1)) == {"a", "b"}
        assert db.health() == []


def test_a_database_deleted_while_open_is_started_anew(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    db, other = FindDb.open(tmp_path / "user"), FindDb.open(tmp_path / "user")
    for one in (db, other):
        one.store(target, problem(1), entry(a=1.0))
    shutil.rmtree(tmp_path / "user")
    db.store(target, problem(2), entry(b=1.0))
    other.store(target, problem(2), entry(c=1.0))
    db.close()
    other.close()
    with FindDb.open(tmp_path / "user") as again:
        assert solvers(again, target, problem(1)) == set()
        assert solvers(again, target, problem(2)) == {"b", "c"}


def test_a_full_table_of_readers_leaves_a_database_for_reading(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    one_warning: OneWarning,
    spawn: Spawn,
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0))
    (tmp_path / f"{FILE_NAME}-lock").unlink()
    ready, signal_ready = os.pipe()

    def hold() -> None:
        path = str(tmp_path / FILE_NAME)
        with lmdb.open(path, subdir=False, max_readers=1) as held, held.begin():
            os.write(signal_ready, b"!")
            time.sleep(3600)

    child = spawn(hold)
    os.close(signal_ready)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    with FindDb.open(tmp_path) as db:
        with one_warning("reading only.*READERS_FULL"):
            assert solvers(db, target, problem(1)) == {"a"}
            db.store(target, problem(1), entry(b=2.0))
        assert solvers(db, target, problem(1)) == {"a", "b"}
    os.kill(child, signal.SIGKILL)
    assert exit_status(child) == -signal.SIGKILL
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(c=3.0))
        assert solvers(db, target, problem(1)) == {"a", "c"}
        assert db.health() == []


def test_processes_that_find_damage_together_repair_it_once(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry, spawn: Spawn
) -> None:
    for life in range(25):
        folder = tmp_path / str(life)
        folder.mkdir()
        (folder / FILE_NAME).write_bytes(b"garbage" * 5000)

        def work(number: int, folder: Path = folder) -> None:
            with warnings.catch_warnings(), FindDb.open(folder) as db:
                warnings.simplefilter("ignore")
                db.store(target, problem(1), entry(**{f"process{number}": 1.0}))

        children = [spawn(lambda number=number: work(number)) for number in range(4)]  # type: ignore[misc]
        assert [exit_status(child) for child in children] == [0] * 4
        with FindDb.open(folder) as db:
            assert solvers(db, target, problem(1)) == {f"process{number}" for number in range(4)}
            assert db.health() == []
        assert len(list(folder.glob("*.corrupt-*[0-9]"))) == 1
