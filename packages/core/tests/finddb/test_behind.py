"""Slow disks: nobody waits for a store, and nothing of it is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from convfind.device.target import Target
from convfind.finddb import BinaryStore, FindDb, FindEntry, behind
from convfind.finddb.database import FILE_NAME
from convfind.finddb.database_file import DatabaseFile
from convfind.problem import ConvProblem

Problem = Callable[[int], ConvProblem]
Entry = Callable[..., FindEntry]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no locks of whole files")


class Disk:
    """A disk that takes its time while it is held."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.writes = 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Every change counts as slow, and waits at the gate in whatever thread it is made."""
    found, write = Disk(), DatabaseFile.write

    def slow(self: DatabaseFile, work: Any) -> bool:
        found.gate.wait(5.0)  # else a test that fails would not end
        found.writes += 1
        return write(self, work)

    monkeypatch.setattr(behind, "SLOW", 0.0)
    monkeypatch.setattr(behind, "_forked", [])
    monkeypatch.setattr(DatabaseFile, "write", slow)
    yield found
    found.gate.set()


def solvers(db: FindDb, target: Target, problem: ConvProblem) -> set[str]:
    found = db.lookup(target, problem)
    return set() if found is None else {record.solver for record in found.entry.records}


def notes(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{FILE_NAME}-notes-*"))


def test_a_store_does_not_wait_and_is_seen_at_once(
    tmp_path: Path, disk: Disk, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(first=1.0))
        db.health()
        disk.gate.clear()
        db.store(target, problem(2), entry(second=1.0))
        db.store(target, problem(2), entry(third=2.0))
        db.store(target, problem(3), entry(fourth=2.0))
        assert solvers(db, target, problem(2)) == {"second", "third"}
        keys = [problem(batch).key for batch in (1, 2, 3)]
        assert [key.rpartition("|")[2] for key, _ in db.entries()] == keys
        assert db.devices() == (target.identity,)
        (journal,) = notes(tmp_path)
        assert journal.stat().st_size > 0
        disk.gate.set()
        db.health()
        assert journal.stat().st_size == 0
    assert not notes(tmp_path)
    with FindDb.open(tmp_path) as again:
        assert [solvers(again, target, problem(batch)) for batch in (1, 2, 3)] == [
            {"first"},
            {"second", "third"},
            {"fourth"},
        ]


def test_what_waits_for_the_disk_is_stored_together(
    tmp_path: Path, disk: Disk, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path) as db:
        disk.gate.clear()
        for batch in range(1, 20):
            db.store(target, problem(batch), entry(one=1.0))
        disk.gate.set()
    assert disk.writes <= 3


def test_other_changes_come_after_what_waits(
    tmp_path: Path, disk: Disk, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(one=1.0))
        disk.gate.clear()
        db.store(target, problem(1), entry(two=2.0))
        threading.Timer(0.1, disk.gate.set).start()
        db.remove(target, problem(1), {"one"})
        assert solvers(db, target, problem(1)) == {"two"}
    with FindDb.open(tmp_path) as again:
        assert solvers(again, target, problem(1)) == {"two"}


def test_another_user_of_the_file_in_this_process_waits(
    tmp_path: Path, disk: Disk, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path) as db, FindDb.open(tmp_path) as other:
        db.store(target, problem(1), entry(one=1.0))
        assert solvers(other, target, problem(1)) == {"one"}
        disk.gate.clear()
        db.store(target, problem(1), entry(two=2.0))
        threading.Timer(0.1, disk.gate.set).start()
        assert solvers(other, target, problem(1)) == {"one", "two"}


_KILLED = """
import os, signal, sys, threading
from pathlib import Path
from convfind.finddb import FindDb, behind
from convfind.finddb.database_file import DatabaseFile
from convfind.problem import ConvProblem
from convfind.testing.mock_backend import MOCK_TARGET
from convfind.finddb import FindEntry, FindRecord

behind.SLOW = 0.0
db = FindDb.open(Path(sys.argv[1]))
write = DatabaseFile.write

def store(number):
    problem = ConvProblem.forward((number, 8, 14, 14), (16, 8, 3, 3))
    fields = {"solver": f"s{number}", "solver_version": 1, "package": "", "time_ms": 1.0}
    record = FindRecord(algorithm="direct", **fields)
    db.store(MOCK_TARGET, problem, FindEntry(records=(record,), considered=(f"s{number}@1",)))

store(1)
db.health()
DatabaseFile.write = lambda *_: threading.Event().wait()
store(2)
store(3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_has_stored_is_there(tmp_path: Path) -> None:
    from convfind.testing.mock_backend import MOCK_TARGET

    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    (journal,) = notes(tmp_path)
    with journal.open("ab") as file:
        file.write(b"torn")
    with FindDb.open(tmp_path) as db:
        for number in (1, 2, 3):
            one = ConvProblem.forward((number, 8, 14, 14), (16, 8, 3, 3))
            assert solvers(db, MOCK_TARGET, one) == {f"s{number}"}
            found = db.lookup(MOCK_TARGET, one)
            assert found is not None
            assert found.entry.considered == (f"s{number}@1",)
    assert not notes(tmp_path)


def test_the_journal_of_a_living_process_is_left_to_it(
    tmp_path: Path, disk: Disk, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(one=1.0))
        db.health()
        disk.gate.clear()
        db.store(target, problem(2), entry(two=1.0))
        (journal,) = notes(tmp_path)
        code = (
            "import sys; from pathlib import Path; from convfind.finddb import FindDb\n"
            "print(len(list(FindDb.open(Path(sys.argv[1])).entries())))"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"
        assert journal.stat().st_size > 0
        disk.gate.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_waits_for_what_is_stored_and_its_child_stores_at_once(
    tmp_path: Path, disk: Disk, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(one=1.0))
        disk.gate.clear()
        db.store(target, problem(2), entry(two=1.0))
        threading.Timer(0.1, disk.gate.set).start()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                db.store(target, problem(3), entry(three=1.0))
                status = 0 if solvers(db, target, problem(2)) == {"two"} else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(notes(tmp_path)) == 1
        assert solvers(db, target, problem(3)) == {"three"}


def test_a_folder_that_takes_no_journal_is_waited_for(
    tmp_path: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    target: Target,
    problem: Problem,
    entry: Entry,
) -> None:
    monkeypatch.setattr("convfind.finddb.journal.locked", lambda path, flags=0: None)
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(one=1.0))
        writes = disk.writes
        db.store(target, problem(2), entry(two=1.0))
        assert disk.writes == writes + 1
        assert not notes(tmp_path)


def test_binaries_do_not_wait_either(tmp_path: Path, disk: Disk) -> None:
    with BinaryStore.open(tmp_path) as store:
        store.put("first", b"1")
        disk.gate.clear()
        store.put("second", b"2")
        store.put("second", b"22")
        store.put("third", b"3")
        assert [store.get(key) for key in ("first", "second", "third")] == [b"1", b"22", b"3"]
        disk.gate.set()
    with BinaryStore.open(tmp_path) as again:
        assert [again.get(key) for key in ("first", "second", "third")] == [b"1", b"22", b"3"]
