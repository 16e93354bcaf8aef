"""A cache is never fatal: databases that are damaged, newer, unwritable or on a full disk."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import lmdb
import pytest

from convfind.device.target import Target
from convfind.finddb import BinaryStore, FindDb, FindEntry, file_check
from convfind.finddb.database import FILE_NAME
from convfind.finddb.environment import Environment, Transaction
from convfind.finddb.file_check import fault
from convfind.finddb.key import database_key
from convfind.finddb.roster import ROSTER
from convfind.finddb.table import FIND
from convfind.problem import ConvProblem
from convfind.solver.config import Config

Problem = Callable[[int], ConvProblem]
Entry = Callable[..., FindEntry]
OneWarning = Callable[[str], AbstractContextManager[None]]

COUNT = 300  # problems in `filled`

# Of LMDB's pages: the size of their head, the flag of leaves, and that of values elsewhere.
_HEAD, _LEAF, _BIG = 16, 2, 1

# How processes end that LMDB takes along.
_DEADLY = tuple(
    -number for name in ("SIGBUS", "SIGSEGV", "SIGABRT") if (number := getattr(signal, name, 0))
)


def change_stored(db: FindDb, work: Callable[[Environment, Transaction], None]) -> None:
    """Write into the user's file behind the back of the database."""
    assert db._user.file is not None
    assert db._user.file.write(work)


def works_on_disk(folder: Path, target: Target, one: ConvProblem, entry: FindEntry) -> None:
    """Check that a database without any complaint is there now."""
    with FindDb.open(folder) as db:
        db.store(target, one, entry)
    with FindDb.open(folder) as db:
        assert db.lookup(target, one) is not None
        assert db.health() == []


@pytest.mark.parametrize(
    "content",
    [b"x", b"not a database\n" * 1000, random.Random(1).randbytes(100_000), b"\0" * 50_000],
    ids=["byte", "text", "random", "zeros"],
)
def test_garbage_is_moved_aside(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    content: bytes,
    one_warning: OneWarning,
) -> None:
    file = tmp_path / FILE_NAME
    file.write_bytes(content)
    (tmp_path / f"{FILE_NAME}.corrupt-1").write_bytes(b"an earlier one")
    db = FindDb.open(tmp_path)
    with one_warning(r"corrupt-2 and started anew"):
        assert db.lookup(target, problem(1)) is None
        db.store(target, problem(1), entry(a=1.0))
    assert len(db.health()) == 1
    db.close()
    assert (tmp_path / f"{FILE_NAME}.corrupt-1").read_bytes() == b"an earlier one"
    assert (tmp_path / f"{FILE_NAME}.corrupt-2").read_bytes() == content
    works_on_disk(tmp_path, target, problem(2), entry(a=1.0))


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9])
def test_a_truncated_file_is_moved_aside(
    filled: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    share: float,
    one_warning: OneWarning,
) -> None:
    content = filled.read_bytes()[: int(filled.stat().st_size * share)]
    filled.write_bytes(content)
    with (
        FindDb.open(filled.parent) as db,
        one_warning("was damaged"),
    ):
        assert db.lookup(target, problem(1)) is None
    assert filled.with_name(f"{FILE_NAME}.corrupt-1").read_bytes() == content
    works_on_disk(filled.parent, target, problem(1), entry(a=1.0))


def test_a_file_whose_last_pages_were_never_written_is_healthy(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    def short_of(file: Path) -> bool:
        before = file.stat().st_size
        assert fault(file) is None
        return file.stat().st_size > before  # the check has completed it

    # LMDB leaves out pages that a transaction took at the end of the file and gave up again.
    file = tmp_path / "x.lmdb"
    numbers = random.Random(0)
    keys: list[bytes] = []
    found = False
    with lmdb.open(str(file), subdir=False, map_size=1 << 30, sync=False) as environment:
        while not found:
            with environment.begin(write=True) as transaction:
                for _ in range(numbers.choice([1, 5, 50])):
                    if keys and numbers.random() < 0.45:
                        transaction.delete(keys.pop(numbers.randrange(len(keys))))
                    else:
                        keys.append(b"%d" % numbers.randrange(10**6))
                        size = numbers.choice([10, 700, 3000, 30000, 100000])
                        transaction.put(keys[-1], numbers.randbytes(size))
            found = short_of(file)
    assert not short_of(file)


def test_pages_that_go_bad_in_use(
    filled: Path, target: Target, problem: Problem, entry: Entry, one_warning: OneWarning
) -> None:
    db = FindDb.open(filled.parent)
    assert db.lookup(target, problem(1)) is not None
    with filled.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(2 * 4096)
        file.write(b"\xff" * (size - 2 * 4096))
    with one_warning("was damaged"):
        for batch in range(1, COUNT + 1):
            db.lookup(target, problem(batch))
    db.store(target, problem(1), entry(a=1.0))
    assert db.lookup(target, problem(1)) is not None
    db.close()
    assert filled.with_name(f"{FILE_NAME}.corrupt-1").exists()
    works_on_disk(filled.parent, target, problem(2), entry(a=1.0))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_random_damage_never_kills_twice_and_never_lies(
    filled: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    content = filled.read_bytes()
    expected = entry(a=1.0, b=2.0, c=3.0)

    def use(folder: Path) -> None:
        wrong = []
        with FindDb.open(folder) as db:
            for batch in range(1, COUNT + 1):
                found = db.lookup(target, problem(batch))
                if found is not None and is_untrue(found.entry, expected):
                    wrong.append(f"{batch} is {found.entry}")
            for batch in range(1, COUNT + 1):
                db.store(target, problem(batch), entry(d=0.5))
                found = db.lookup(target, problem(batch))
                if found is None or found.entry.records[0].solver != "d":
                    wrong.append(f"{batch} is {found and found.entry} after it was stored")
        (folder / "wrong").write_text("\n".join(wrong))

    for seed in range(15):
        numbers = random.Random(seed)
        damaged = bytearray(content)
        for _ in range(numbers.choice([1, 20, 500])):
            start = numbers.randrange(8192, len(damaged))
            damaged[start : start + 16] = numbers.randbytes(16)
        folder = filled.parent / str(seed)
        folder.mkdir()
        (folder / FILE_NAME).write_bytes(damaged)
        status = status_of(lambda folder=folder: use(folder))  # type: ignore[misc]
        if status in _DEADLY:
            status = status_of(lambda folder=folder: use(folder))  # type: ignore[misc]
        assert status == 0
        assert (folder / "wrong").read_text() == ""


def is_untrue(found: FindEntry, stored: FindEntry) -> bool:
    """Say whether an entry holds what was never stored.

    A roster lies elsewhere in the file: where it is lost nobody counts as considered, and a find
    decides about everybody again.
    """
    return found.records != stored.records or found.considered not in (stored.considered, ())


def test_a_lost_roster_takes_no_measurement_along(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    expected = entry(known_to_no_other_test=1.0, nor_this=2.0)

    def lose(environment: Environment, transaction: Transaction) -> None:
        handle = environment.table(ROSTER)
        assert handle is not None
        transaction.drop(handle, delete=False)

    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), expected)
        change_stored(db, lose)
        found = db.lookup(target, problem(1))
        assert found is not None
        assert found.entry == FindEntry(records=expected.records, considered=())
        db.store(target, problem(2), expected)
        again = db.lookup(target, problem(2))
        assert again is not None
        assert again.entry == expected
        assert db.health() == []


def make_deadly(file: Path) -> None:
    """Let values with pages of their own claim a length far beyond the end of the file."""
    content = bytearray(file.read_bytes())
    for page in range(2 * 4096, len(content), 4096):
        flags, lower = struct.unpack_from("=HH", content, page + 10)
        nodes = (lower - _HEAD) // 2 if flags == _LEAF else 0
        for (node,) in struct.iter_unpack("=H", content[page + _HEAD : page + _HEAD + 2 * nodes]):
            if struct.unpack_from("=H", content, page + node + 4)[0] == _BIG:
                struct.pack_into("=HH", content, page + node, 0, 0x3000)  # 768 MiB
    file.write_bytes(content)


def status_of(work: Callable[[], object]) -> int:
    """Run a function in a forked child: 0, minus the signal that killed it, or 1 if it raised."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        status = 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_damage_that_kills_a_process_kills_no_second_one(
    filled: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(filled.parent) as db:
        db.store(target, problem(1), entry(**{f"solver{number}": 1.0 for number in range(100)}))
    make_deadly(filled)
    content = filled.read_bytes()

    def use() -> None:
        with FindDb.open(filled.parent) as db:
            for batch in range(1, COUNT + 1):
                db.lookup(target, problem(batch))

    assert status_of(use) in _DEADLY
    assert status_of(use) == 0
    assert filled.with_name(f"{FILE_NAME}.corrupt-1").read_bytes() == content
    works_on_disk(filled.parent, target, problem(1), entry(a=1.0))
    assert not list(filled.parent.glob("*-open-*"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_a_file_that_is_read_for_ever_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")  # which nobody writes to
    monkeypatch.setattr(file_check, "_EXAMINATION", 0.1)
    assert file_check._examined(tmp_path / "pipe", at_rest=True) == "reading it never ends"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_healthy_file_is_kept_when_its_user_is_killed(
    filled: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    def die() -> None:
        db = FindDb.open(filled.parent)
        db.store(target, problem(1), entry(d=4.0))
        os.kill(os.getpid(), signal.SIGKILL)

    assert status_of(die) == -signal.SIGKILL
    assert len(list(filled.parent.glob("*-open-*"))) == 1
    with FindDb.open(filled.parent) as db:
        found = db.lookup(target, problem(1))
        assert found is not None
        assert [record.solver for record in found.entry.records] == ["a", "b", "c", "d"]
        assert db.health() == []
        assert len(list(filled.parent.glob("*-open-*"))) == 1, "its own"
    assert not list(filled.parent.glob("*-open-*"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("signal_name", ["KILL", "TERM"])
def test_an_examination_that_somebody_ends_says_nothing_about_the_file(
    filled: Path,
    target: Target,
    problem: Problem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    signal_name: str,
) -> None:
    def die() -> None:
        FindDb.open(filled.parent).lookup(target, problem(1))
        os.kill(os.getpid(), signal.SIGKILL)

    assert status_of(die) == -signal.SIGKILL
    (marker,) = filled.parent.glob("*-open-*")
    ended = tmp_path / "ended"
    ended.write_text(f"#!/bin/sh\nkill -{signal_name} $$\n")
    ended.chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(ended))
        with FindDb.open(filled.parent) as db:
            assert db.lookup(target, problem(1)) is not None
            assert db.health() == []
    assert marker.exists(), "the next opening looks again"
    with FindDb.open(filled.parent) as db:
        assert db.lookup(target, problem(1)) is not None
        assert not marker.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_file_in_use_is_examined_beside_its_users(
    filled: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(filled.parent) as db:
        db.store(target, problem(1), entry(d=4.0))

        def die() -> None:
            with FindDb.open(filled.parent) as other:
                other.lookup(target, problem(1))
                os.kill(os.getpid(), signal.SIGKILL)

        def use() -> None:
            with FindDb.open(filled.parent) as other:
                assert other.lookup(target, problem(1)) is not None
                assert other.health() == []

        assert status_of(die) == -signal.SIGKILL
        assert status_of(use) == 0
        assert len(list(filled.parent.glob("*-open-*"))) == 1
        assert db.lookup(target, problem(2)) is not None


def test_a_program_that_ends_with_its_database_open_leaves_no_marker(
    filled: Path, tmp_path: Path
) -> None:
    code = (
        "import pathlib, sys; from convfind.finddb import FindDb; "
        "db = FindDb.open(pathlib.Path(sys.argv[1])); assert db.health() == []; "
        "print(*pathlib.Path(sys.argv[1]).glob('*-open-*'))"
    )
    words = [sys.executable, "-c", code, str(filled.parent)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "-open-" in done.stdout
    assert not list(filled.parent.glob("*-open-*"))


def test_shipped_databases_have_no_marker(filled: Path, target: Target, problem: Problem) -> None:
    with FindDb.open(None, [filled]) as db:
        assert db.lookup(target, problem(1)) is not None
        assert not list(filled.parent.glob("*-open-*"))


def test_a_damaged_value_is_a_miss_and_is_replaced(
    filled: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    key = database_key(target, problem(1))

    def spoil(environment: Environment, transaction: Transaction) -> None:
        handle = environment.table(FIND.name)
        value = bytearray(transaction.get(key, b"", db=handle))
        value[-5] ^= 1
        transaction.put(key, bytes(value), db=handle)
        transaction.put(database_key(target, problem(2)), b"", db=handle)

    with FindDb.open(filled.parent) as db:
        change_stored(db, spoil)
        assert db.lookup(target, problem(1)) is None
        assert db.lookup(target, problem(2)) is None
        assert len(dict(db.entries())) == COUNT - 2
        db.store(target, problem(1), entry(z=9.0))
        found = db.lookup(target, problem(1))
        assert found is not None
        assert [record.solver for record in found.entry.records] == ["z"]
        assert db.health() == []


def raise_schema(file: Path) -> bytes:
    """Make a database look as if a newer version had written it; returns its bytes."""
    with lmdb.open(str(file), subdir=False, max_dbs=9) as environment:
        meta = environment.open_db(b"meta")
        with environment.begin(write=True) as transaction:
            transaction.put(b"schema", b"2", db=meta)
    return file.read_bytes()


def test_a_newer_schema_is_left_untouched(
    filled: Path, target: Target, problem: Problem, entry: Entry, one_warning: OneWarning
) -> None:
    content = raise_schema(filled)
    db = FindDb.open(filled.parent)
    with one_warning(r"has schema 2, newer than 1.*upgrade"):
        assert db.lookup(target, problem(1)) is None
        db.store(target, problem(1), entry(z=1.0))
    assert db.lookup(target, problem(1)) is not None
    assert len(db.health()) == 1
    db.close()
    assert filled.read_bytes() == content


@pytest.mark.parametrize("kind", ["missing", "garbage", "truncated", "newer"])
def test_a_broken_system_database_is_skipped(
    filled: Path,
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    kind: str,
    one_warning: OneWarning,
) -> None:
    if kind == "missing":
        filled.unlink()
    elif kind == "garbage":
        filled.write_bytes(b"garbage" * 1000)
    elif kind == "truncated":
        filled.write_bytes(filled.read_bytes()[: filled.stat().st_size // 2])
    else:
        raise_schema(filled)
    before = filled.read_bytes() if filled.exists() else None
    with FindDb.open(tmp_path / "good") as good:
        good.store(target, problem(1), entry(g=1.0))
    db = FindDb.open(tmp_path / "user", [filled, tmp_path / "good"])
    with one_warning("skipped"):
        found = db.lookup(target, problem(1))
        db.store(target, problem(1), entry(z=2.0))
    assert found is not None
    assert [record.solver for record in found.entry.records] == ["g"]
    assert len(db.health()) == 1
    db.close()
    assert (filled.read_bytes() if filled.exists() else None) == before


def test_a_folder_that_cannot_be_made(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry, one_warning: OneWarning
) -> None:
    (tmp_path / "file").write_text("in the way")
    db = FindDb.open(tmp_path / "file" / "sub")
    with one_warning("memory only"):
        db.store(target, problem(1), entry(a=1.0))
        db.store_config(target, problem(1), "a", 1, Config(tile=1), 1.0)
    assert db.lookup(target, problem(1)) is not None
    assert db.config(target, problem(1), "a", 1) == Config(tile=1)
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_read_only_file_system_is_read_and_shadowed(
    small_disk: Path, target: Target, problem: Problem, entry: Entry, one_warning: OneWarning
) -> None:
    with FindDb.open(small_disk) as db:
        db.store(target, problem(1), entry(a=1.0))
        db.store(target, problem(2), entry(a=1.0))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    db = FindDb.open(small_disk)
    with one_warning("reading only"):
        db.store(target, problem(1), entry(b=0.5))
        db.store(target, problem(3), entry(c=3.0))
        db.remove(target, problem(2))
    found = db.lookup(target, problem(1))
    assert found is not None
    assert [record.solver for record in found.entry.records] == ["b", "a"]
    assert db.lookup(target, problem(2)) is None
    assert db.lookup(target, problem(3)) is not None
    assert len(dict(db.entries())) == 2
    db.close()
    empty = FindDb.open(small_disk / "sub")
    with one_warning("memory only"):
        assert empty.lookup(target, problem(1)) is None


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_a_folder_without_write_permission(
    target: Target, problem: Problem, entry: Entry, in_child: Callable[..., Any]
) -> None:
    top = tempfile.TemporaryDirectory()  # the folders of pytest are closed to other users
    Path(top.name).chmod(0o755)
    folder = Path(top.name) / "shared"
    with FindDb.open(folder) as db:
        db.store(target, problem(1), entry(a=1.0))
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)

    def use() -> list[Any]:
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            db = FindDb.open(folder)
            db.store(target, problem(1), entry(b=2.0))
            found = db.lookup(target, problem(1))
        assert found is not None
        return [[record.solver for record in found.entry.records], [str(w.message) for w in caught]]

    solvers, messages = in_child(use)
    assert solvers == ["a", "b"]
    assert len(messages) == 1
    assert "reading only" in messages[0]
    folder.chmod(0o700)
    top.cleanup()


def fill_disk(folder: Path) -> Path:
    """Take all the space that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (4096, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def test_a_disk_that_is_full_from_the_start(
    small_disk: Path, target: Target, problem: Problem, entry: Entry, one_warning: OneWarning
) -> None:
    fill_disk(small_disk)
    db = FindDb.open(small_disk)
    with one_warning("No space left"):
        db.store(target, problem(1), entry(a=1.0))
    assert db.lookup(target, problem(1)) is not None
    store = BinaryStore.open(small_disk)
    with one_warning("No space left"):
        store.put("kernel", b"binary")
    assert store.get("kernel") == b"binary"


def test_a_disk_that_fills_up_and_is_freed_again(
    small_disk: Path, target: Target, problem: Problem, entry: Entry, one_warning: OneWarning
) -> None:
    db = FindDb.open(small_disk)
    db.store(target, problem(1), entry(a=1.0))
    ballast = fill_disk(small_disk)
    with one_warning("cannot write"):
        for batch in range(1, 41):
            db.store(target, problem(batch), entry(b=2.0))
    assert all(db.lookup(target, problem(batch)) is not None for batch in range(1, 41))
    ballast.unlink()
    for batch in range(1, 41):
        db.store(target, problem(batch), entry(c=3.0))
    db.close()
    with FindDb.open(small_disk) as again:
        found = again.lookup(target, problem(1))
        assert found is not None
        assert [record.solver for record in found.entry.records] == ["a", "b", "c"]
        assert len(dict(again.entries())) == 40
        assert again.health() == []
