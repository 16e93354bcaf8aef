"""Names of considered solvers, which lie once in a file and are named by bits in its entries."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry, roster
from convfind.finddb.change import Change
from convfind.finddb.database import FILE_NAME
from convfind.finddb.environment import Environment, Transaction
from convfind.finddb.key import database_key, seal, unseal
from convfind.finddb.roster import NEWEST, ROSTER
from convfind.finddb.table import FIND
from convfind.problem import ConvProblem
from convfind.testing import MOCK_TARGET

Problem = Callable[[int], ConvProblem]
Entry = Callable[..., FindEntry]

NAMES = tuple(f"solver-{number:03}@1" for number in range(200))


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    """Reading means reading the file, as in a new process."""
    roster._known.clear()


@dataclass
class Stored:
    """What lies in a file, as sealed bytes."""

    entries: dict[bytes, bytes]
    rosters: dict[bytes, bytes]  # without the name of the newest


def stored(folder: Path) -> Stored:
    def items(name: str) -> dict[bytes, bytes]:
        with environment.begin() as transaction:
            return dict(transaction.cursor(environment.open_db(name.encode(), txn=transaction)))

    path = str(folder / FILE_NAME)
    with lmdb.open(path, subdir=False, max_dbs=9, readonly=True, lock=False) as environment:
        rosters = items(ROSTER)
        rosters.pop(NEWEST, None)
        return Stored(items(FIND.name), rosters)


def change(db: FindDb, work: Callable[[Change], None]) -> None:
    """Write into the user's file behind the back of the database."""

    def write(environment: Environment, transaction: Transaction) -> None:
        work(Change(environment.table, transaction))

    assert db._user.file is not None
    assert db._user.file.write(write)


def considered(db: FindDb, target: Target, problem: ConvProblem) -> tuple[str, ...]:
    found = db.lookup(target, problem)
    assert found is not None
    return found.entry.considered


def test_many_entries_share_one_roster(tmp_path: Path, target: Target, problem: Problem) -> None:
    with FindDb.open(tmp_path) as db:
        for batch in range(1, 21):
            some = NAMES[:: 1 + batch % 3] if batch > 1 else NAMES
            db.store(target, problem(batch), FindEntry(records=(), considered=some))
    with FindDb.open(tmp_path) as db:
        for batch in range(2, 21):
            assert considered(db, target, problem(batch)) == NAMES[:: 1 + batch % 3]
        assert considered(db, target, problem(3)) is considered(db, target, problem(6))
    found = stored(tmp_path)
    assert len(found.rosters) == 1
    assert max(map(len, found.entries.values())) < 100


def test_a_new_name_makes_a_new_roster_and_old_entries_stay(
    tmp_path: Path, target: Target, problem: Problem
) -> None:
    with FindDb.open(tmp_path) as db:
        for batch, names in ((1, NAMES[:100]), (2, ("new@2",)), (3, NAMES[50:]), (4, NAMES)):
            db.store(target, problem(batch), FindEntry(records=(), considered=names))
    roster._known.clear()
    with FindDb.open(tmp_path) as db:
        assert considered(db, target, problem(1)) == NAMES[:100]
        assert considered(db, target, problem(2)) == ("new@2",)
        assert considered(db, target, problem(3)) == NAMES[50:]
        assert considered(db, target, problem(4)) == NAMES
    assert len(stored(tmp_path).rosters) == 3


def test_an_entry_that_considered_nobody_needs_no_roster(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    alone = FindEntry(records=entry(a=1.0).records)
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), alone)
        assert considered(db, target, problem(1)) == ()
    assert stored(tmp_path).rosters == {}


def write_old_file(folder: Path, entries: dict[bytes, FindEntry]) -> None:
    """Write a database as versions did that stored the names with each entry."""
    folder.mkdir()
    with (
        lmdb.open(str(folder / FILE_NAME), subdir=False, max_dbs=4, lib_version=0) as environment,
        environment.begin(write=True) as transaction,
    ):
        meta = environment.open_db(b"meta", txn=transaction)
        transaction.put(b"schema", b"1", db=meta)
        find = environment.open_db(b"find", txn=transaction)
        for key, value in entries.items():
            transaction.put(key, seal(key, msgspec.msgpack.encode(value)), db=find)


@pytest.mark.parametrize("layer", ["user", "system"])
def test_files_without_rosters_are_read(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry, layer: str
) -> None:
    old = {database_key(target, problem(batch)): entry(a=1.0, b=2.0) for batch in (1, 2)}
    write_old_file(tmp_path / layer, old)
    with FindDb.open(tmp_path / "user", [tmp_path / "system"] * (layer == "system")) as db:
        assert considered(db, target, problem(1)) == ("a@1", "b@1")
        db.store(target, problem(1), entry(c=0.5))
        for batch, names in ((1, ("a@1", "b@1", "c@1")), (2, ("a@1", "b@1"))):
            found = db.lookup(target, problem(batch))
            assert found is not None
            assert tuple(sorted(f"{r.solver}@1" for r in found.entry.records)) == names
            assert found.entry.considered == names
        assert db.health() == []


def test_versions_without_rosters_read_the_records(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0, b=2.0))
    (sealed,) = stored(tmp_path).entries.values()
    # Their `FindEntry` was what the file held.
    old = msgspec.msgpack.decode(sealed[10:], type=FindEntry)
    assert old == FindEntry(records=entry(a=1.0, b=2.0).records, considered=())


def newest(change: Change) -> bytes:
    digest = unseal(NEWEST, change.get(ROSTER, NEWEST) or b"")
    assert digest is not None
    return digest


def lose(change: Change) -> None:
    change.delete(ROSTER, newest(change))


def spoil(change: Change) -> None:
    digest = newest(change)
    sealed = bytearray(change.get(ROSTER, digest) or b"")
    sealed[-3] ^= 1
    change.put(ROSTER, digest, bytes(sealed))


def forge(change: Change) -> None:
    """Put another list under the digest, with a checksum that is right."""
    digest = newest(change)
    change.put(ROSTER, digest, seal(digest, msgspec.msgpack.encode(["z@1", "z@2"])))


def confuse(change: Change) -> None:
    """Put what is no list under the digest, and name what is no digest."""
    digest = newest(change)
    change.put(ROSTER, digest, seal(digest, b"\xc1"))
    change.put(ROSTER, NEWEST, seal(NEWEST, b"no digest" * 100))


@pytest.mark.parametrize("damage", [lose, spoil, forge, confuse])
def test_without_its_roster_an_entry_has_considered_nobody(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    damage: Callable[[Change], None],
) -> None:
    with FindDb.open(tmp_path) as db:
        for batch in (1, 2):
            db.store(target, problem(batch), entry(a=1.0, b=2.0))
        change(db, damage)
        found = db.lookup(target, problem(1))
        assert found is not None
        assert [record.solver for record in found.entry.records] == ["a", "b"]
        assert found.entry.considered == ()
        assert db.health() == []
        db.store(target, problem(1), entry(a=1.5, b=2.5))  # as a find does that asks all again
        assert considered(db, target, problem(1)) == ("a@1", "b@1")
    with FindDb.open(tmp_path) as db:
        assert considered(db, target, problem(2)) == ("a@1", "b@1")


def test_what_is_kept_in_memory_needs_no_roster(
    target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(None) as db:
        db.store(target, problem(1), entry(a=1.0))
        db.store(target, problem(1), entry(b=1.0))
        assert considered(db, target, problem(1)) == ("a@1", "b@1")


def test_names_that_other_processes_enrol_are_read(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    in_child: Callable[[Callable[[], Any]], Any],
) -> None:
    def store() -> None:
        with FindDb.open(tmp_path) as theirs:
            theirs.store(target, problem(1), entry(theirs=1.0))
            theirs.store(target, problem(2), entry(theirs=1.0))

    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(ours=2.0))
        assert considered(db, target, problem(1)) == ("ours@1",)
        in_child(store)
        assert considered(db, target, problem(1)) == ("ours@1", "theirs@1")
        assert considered(db, target, problem(2)) == ("theirs@1",)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from(NAMES[:20]), max_size=20), min_size=1, max_size=8))
def test_every_list_comes_back_sorted(lists: list[list[str]]) -> None:
    keys = [f"1|key|{number}".encode() for number in range(len(lists))]
    with tempfile.TemporaryDirectory() as folder, FindDb.open(Path(folder)) as db:

        def fill(values: Change) -> None:
            for key, names in zip(keys, lists, strict=True):
                entry = FindEntry(records=(), considered=tuple(names))
                values.put(FIND.name, key, FIND.pack(key, entry, values))

        change(db, fill)
        roster._known.clear()
        found = [entry.considered for _, entry in db.entries()]
        assert found == [tuple(sorted(set(names))) for names in lists]


def test_a_change_that_fails_enrols_nobody(tmp_path: Path, problem: Problem, entry: Entry) -> None:
    key = database_key(MOCK_TARGET, problem(1))

    def fail(values: Change) -> None:
        values.put(FIND.name, key, FIND.pack(key, entry(a=1.0), values))
        raise RuntimeError

    with FindDb.open(tmp_path) as db:
        with pytest.raises(RuntimeError):
            change(db, fail)
        assert db.lookup(MOCK_TARGET, problem(1)) is None
        db.store(MOCK_TARGET, problem(1), entry(a=1.0))
        roster._known.clear()
        assert considered(db, MOCK_TARGET, problem(1)) == ("a@1",)
