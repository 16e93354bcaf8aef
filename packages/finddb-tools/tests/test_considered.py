"""Which solvers were considered: what tools read and write of it, with rosters and without."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import pytest

from convfind.device.target import Target
from convfind.errors import FindDbCorruptError
from convfind.finddb import FindDb, FindEntry, FindRecord, roster
from convfind.finddb.change import Change
from convfind.finddb.key import seal
from convfind.finddb.roster import NEWEST, ROSTER
from convfind.problem import ConvProblem
from convfind_finddb_tools.database import Snapshot, Writer
from convfind_finddb_tools.entry import own_entries
from convfind_finddb_tools.pack_check import check_pack
from convfind_finddb_tools.packing import write_pack
from convfind_finddb_tools.selection import Selection

Make = Callable[..., FindRecord]
Names = dict[str, tuple[str, ...]]

NAMES = tuple(f"solver-{number:02}@1" for number in range(60))
#: By batch size: lists that no one list has all of, so that a file has several rosters.
LISTS = {batch: NAMES[batch : 10 * batch : 1 + batch % 2] for batch in range(1, 7)}


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    """Reading means reading the file, as in a new process."""
    roster._known.clear()


@pytest.fixture
def database(tmp_path: Path, target: Target, problem: ConvProblem, record: Make) -> Path:
    """A database of six problems."""
    with FindDb.open(tmp_path / "db") as database:
        for batch, names in LISTS.items():
            entry = FindEntry(records=(record("solver-01", created=batch),), considered=names)
            database.store(target, problem.with_batch(batch), entry)
    return tmp_path / "db"


@pytest.fixture
def expected(problem: ConvProblem) -> Names:
    return {problem.with_batch(batch).key: names for batch, names in LISTS.items()}


def considered(path: Path) -> Names:
    """Who was considered for each problem, as tools read it."""
    roster._known.clear()
    with Snapshot(path) as snapshot:
        return {entry.problem: entry.considered for entry in own_entries(snapshot)}


def rosters(path: Path) -> int:
    with Snapshot(path) as snapshot:
        return sum(key != NEWEST for key, _ in snapshot.items(ROSTER))


def test_tools_read_what_finds_wrote(database: Path, expected: Names) -> None:
    assert considered(database) == expected
    assert rosters(database) > 1


@pytest.mark.parametrize("way", ["merge", "compact", "repair", "text"])
def test_every_copy_keeps_it(
    shell: Any, database: Path, expected: Names, tmp_path: Path, way: str
) -> None:
    copy, text = tmp_path / "copy.lmdb", tmp_path / "copy.jsonl"
    if way == "text":
        shell("db", "export", database, "--format", "jsonl", "--output", text)
        shell("db", "import", text, "--to", copy)
    else:
        shell("db", way, database, "--to", copy)
    assert considered(copy) == expected


def test_the_text_names_the_solvers(
    shell: Any, database: Path, expected: Names, tmp_path: Path
) -> None:
    shell("db", "export", database, "--format", "jsonl", "--output", tmp_path / "text.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "text.jsonl").read_text().splitlines()]
    found = {line["key"].rpartition("|")[2]: tuple(line["considered"]) for line in lines}
    assert {line["table"] for line in lines} == {"find"}
    assert found == expected


def test_merging_again_changes_nothing_though_rosters_grew(
    shell: Any, database: Path, tmp_path: Path
) -> None:
    first = shell.json("db", "merge", database, "--to", tmp_path / "out")
    again = shell.json("db", "merge", database, "--to", tmp_path / "out")
    assert (first["changed"], again["changed"]) == (len(LISTS), 0)


def test_a_pack_has_one_roster(
    shell: Any, database: Path, expected: Names, target: Target, tmp_path: Path
) -> None:
    pack = tmp_path / "pack.lmdb"
    shell("db", "pack", database, "--device", "Test Device", "--output", pack)
    assert considered(pack) == expected
    assert rosters(pack) == 1
    with FindDb.open(None, [pack]) as shipped:
        problem = ConvProblem.from_key(next(iter(expected)))
        found = shipped.lookup(target, problem)
        assert found is not None
        assert found.entry.considered == expected[problem.key]


def test_removing_results_forgets_only_their_solvers(
    shell: Any, database: Path, record: Make, target: Target, problem: ConvProblem
) -> None:
    with FindDb.open(database) as open_database:
        entry = FindEntry(records=(record("solver-02"),), considered=("solver-02@1",))
        open_database.store(target, problem.with_batch(6), entry)
    shell("db", "gc", database, "--solver", "solver-02")
    left = considered(database)[problem.with_batch(6).key]
    assert left == tuple(name for name in LISTS[6] if name != "solver-02@1")


def test_files_of_earlier_versions_are_read_and_merged(
    shell: Any, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> None:
    entry = FindEntry(records=(record("solver-01"),), considered=NAMES)
    key = f"1|{target.identity}|{problem.key}".encode()
    file = tmp_path / "old.lmdb"
    with (
        lmdb.open(str(file), subdir=False, max_dbs=2, lib_version=0) as environment,
        environment.begin(write=True) as transaction,
    ):
        meta = environment.open_db(b"meta", txn=transaction)
        transaction.put(b"schema", b"1", db=meta)
        find = environment.open_db(b"find", txn=transaction)
        transaction.put(key, seal(key, msgspec.msgpack.encode(entry)), db=find)
    before = file.read_bytes()
    assert considered(file) == {problem.key: NAMES}
    shell("db", "merge", file, "--to", tmp_path / "new")
    assert considered(tmp_path / "new") == {problem.key: NAMES}
    assert rosters(tmp_path / "new") == 1
    assert file.read_bytes() == before


def test_repair_saves_records_whose_roster_is_lost(
    shell: Any, database: Path, expected: Names, tmp_path: Path
) -> None:
    def spoil(change: Change) -> None:
        for digest in digests:
            change.put(ROSTER, digest, b"x" * 100)

    with Snapshot(database) as snapshot:
        digests = [key for key, _ in snapshot.items(ROSTER) if key != NEWEST]
    with Writer(database) as writer:
        writer.change(spoil)
    compact, saved = tmp_path / "compact.lmdb", tmp_path / "saved"
    shell("db", "compact", database, "--to", compact)  # else it finds what was there before
    shell("db", "repair", compact, "--to", saved)
    assert considered(saved) == dict.fromkeys(expected, ())


def test_a_pack_with_a_damaged_roster_is_not_installed(
    database: Path, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forge(names: tuple[str, ...], change: Change) -> None:
        digest = bytes(16)
        change.put(ROSTER, digest, seal(digest, msgspec.msgpack.encode(names)))

    monkeypatch.setattr("convfind_finddb_tools.packing.enrol", forge)
    with Snapshot(database) as snapshot:
        report = write_pack(snapshot, target.identity, Selection(), tmp_path / "bad.lmdb")
    with pytest.raises(FindDbCorruptError, match=f"its roster {bytes(16).hex()} is damaged"):
        check_pack(report.pack)
