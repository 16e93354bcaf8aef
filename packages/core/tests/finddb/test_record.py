"""The stored form of records, which files all over the world rely on."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import msgspec

from convfind.finddb import FindEntry, FindRecord, QuarantineRecord, TunedConfig
from convfind.finddb.change import Change
from convfind.finddb.database import LAYOUT
from convfind.finddb.database_file import DatabaseFile
from convfind.finddb.environment import Environment, Transaction
from convfind.finddb.key import seal
from convfind.finddb.table import CONFIG, FIND, QUARANTINE

RECORD = FindRecord(
    solver="s",
    solver_version=2,
    package="p 1",
    algorithm="direct",
    time_ms=1.5,
    spread_ms=0.1,
    samples=3,
    workspace=64,
    config={"tile_m": 8},
    error=0.5,
    source_hash="h",
    driver="d",
    created=7,
    constant_weights=True,
)
STORED = ["s", 2, "p 1", "direct", 1.5, 0.1, 3, 64, {"tile_m": 8}, 0.5, "h", "d", 7, True]


def plain(sealed: bytes) -> object:
    """What anyone reads from a stored value who knows MessagePack."""
    return msgspec.msgpack.decode(sealed[10:])


def nothing(table: str, key: bytes) -> None:
    """Read values beside it from a file that has none."""


def test_the_order_of_the_fields_is_fixed(tmp_path: Path) -> None:
    entry = FindEntry(records=(RECORD,), considered=("a@1", "s@2"))
    failure = QuarantineRecord(
        solver="s", solver_version=2, source_hash="h", driver="d", reason="r", detail="x", created=7
    )
    tuned = TunedConfig(solver="s", solver_version=2, config={"a": 1}, time_ms=1.5, created=7)
    names = msgspec.msgpack.encode(["a@1", "s@2"])
    digest = blake2b(names, digest_size=16).digest()

    def check(environment: Environment, transaction: Transaction) -> None:
        change = Change(environment.table, transaction)
        assert plain(FIND.pack(b"k", entry, change)) == [[STORED], [], digest, b"\x03"]
        assert change.get("roster", digest) == seal(digest, names)
        assert change.get("roster", b"newest") == seal(b"newest", digest)
        only = FindEntry(records=(), considered=("s@2",))
        assert plain(FIND.pack(b"k", only, change)) == [[], [], digest, b"\x02"]
        assert plain(FIND.pack(b"k", FindEntry(records=()), change)) == [[], [], b"", b""]
        packed = plain(QUARANTINE.pack(b"k", (failure,), change))
        assert packed == [["s", 2, "h", "d", "r", "x", 7, None]]
        assert plain(CONFIG.pack(b"k", (tuned,), change)) == [["s", 2, {"a": 1}, 1.5, 7]]

    file = DatabaseFile(tmp_path / "finddb.lmdb", LAYOUT, writable=True)
    assert file.write(check)
    file.close()


def test_a_quarantine_without_a_config_is_of_the_first_versions() -> None:
    first = msgspec.msgpack.encode([["s", 2, "h", "d", "r", "x", 7]])
    read = QUARANTINE.unpack(b"k", seal(b"k", first), nothing)
    assert read is not None
    assert [(record.solver, record.created, record.config) for record in read] == [("s", 7, None)]


def test_entries_of_the_first_versions_name_their_solvers() -> None:
    first = msgspec.msgpack.encode([[STORED], ["s@2", "t@1"]])
    read = FIND.unpack(b"k", seal(b"k", first), nothing)
    assert read == FindEntry(records=(RECORD,), considered=("s@2", "t@1"))


def test_fields_of_a_later_version_are_ignored() -> None:
    later = msgspec.msgpack.encode([[[*STORED, "new", {}]], ["s@2"], b"", b"", "more"])
    read = FIND.unpack(b"k", seal(b"k", later), nothing)
    assert read == FindEntry(records=(RECORD,), considered=("s@2",))


def test_fields_that_an_earlier_version_lacked_have_their_default() -> None:
    earlier = msgspec.msgpack.encode([[STORED[:5]]])
    read = FIND.unpack(b"k", seal(b"k", earlier), nothing)
    assert read is not None
    assert read.records[0].time_ms == 1.5
    assert read.records[0].config is None


def test_what_is_no_record_is_a_miss() -> None:
    for payload in (b"", b"\xc1", msgspec.msgpack.encode({"records": 1})):
        assert FIND.unpack(b"k", seal(b"k", payload), nothing) is None
