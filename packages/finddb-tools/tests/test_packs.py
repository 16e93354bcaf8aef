"""Packs: one device's records in a file that other machines install."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import pytest

import convfind
from convfind import Config
from convfind.device.target import Target
from convfind.errors import FindDbCorruptError, FindDbError
from convfind.finddb import FindDb, FindEntry, FindRecord, QuarantineRecord
from convfind.finddb.change import Change
from convfind.finddb.pack import Pack, read_pack
from convfind.finddb.packs import installed_packs, pack_prefix, packs_folder
from convfind.finddb.replacing import copy_file
from convfind.finddb.roster import NEWEST, ROSTER, roster_names
from convfind.finddb.table import FIND
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing import MockBackend
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.entry import own_entries
from convfind_finddb_tools.installing import install_pack
from convfind_finddb_tools.pack_check import check_pack
from convfind_finddb_tools.packing import write_pack
from convfind_finddb_tools.selection import Selection

Store = Callable[..., Path]
Make = Callable[..., FindRecord]
_TAIL = struct.Struct("<I32s8s")


@pytest.fixture
def packed(
    shell: Any, store: Store, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> Path:
    """A pack of the test device with two problems, a tuned config and a quarantine."""
    folder = store("fleet", record("solver-a", 1.5), record("solver-b", 2.0))
    store("fleet", record("solver-a", 0.5, created=7), problem=problem.with_batch(1))
    with FindDb.open(folder) as database:
        database.store_config(target, problem, "solver-a", 1, Config(tile=8), 1.5)
        database.quarantine(target, problem, quarantine())
        other = replace(target, name="Other Device", identity="")
        database.store(other, problem, FindEntry(records=(record(),)))
    output = tmp_path / "test.lmdb"
    shell("db", "pack", folder, "--device", "test device", "--output", output)
    return output


def test_noisy_records_are_refused_unless_asked_for(
    shell: Any, store: Store, record: Make, problem: ConvProblem, tmp_path: Path
) -> None:
    noisy = record("solver-b", 2.0, spread_ms=1.2)
    folder, output = store("a", record("solver-a", 1.5, spread_ms=0.3), noisy), tmp_path / "p.lmdb"
    words = ("db", "pack", folder, "--device", "test", "--output", output)
    message = shell.error(*words)
    assert "1 of 2 records were measured on a busy machine" in message
    assert f"solver-b of {problem.key} with a spread of 60%" in message
    assert not output.exists()
    shell(*words, "--allow-noisy")
    assert read_pack(output).manifest.records == 2
    shell(*words, "--solver", "solver-a")
    assert read_pack(output).manifest.records == 1


def test_a_package_gets_what_its_solvers_measured(
    shell: Any, store: Store, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> None:
    ours, fft = "solvers", "convfind-solvers-fft"
    other = msgspec.structs.replace(record("fft-x"), package=f"{fft} 0.1.0")
    folder = store("a", record("solver-a", 1.5), other)
    store("a", record("solver-a", 0.5), problem=problem.with_batch(1))
    output = tmp_path / "p.lmdb"
    words = ("db", "pack", folder, "--device", "test", "--output", output, "--package")
    shell(*words, fft)
    manifest = read_pack(output).manifest
    assert (manifest.problems, manifest.records, manifest.packages) == (1, 1, [f"{fft} 0.1.0"])
    shell(*words, ours)
    assert read_pack(output).manifest.records == 2
    assert "no records" in shell.error(*words, "solver")


def test_configs_and_quarantines_belong_to_the_package_that_has_their_solver(
    store: Store, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> None:
    folder = store("a", record("solver-a", 1.5), record("solver-c", 2.5))
    with FindDb.open(folder) as database:
        for solver in ("solver-a", "solver-b+epilogue"):
            database.store_config(target, problem, solver, 1, Config(tile=8), 1.5)
        database.quarantine(target, problem, quarantine())
    for packaged, configs, quarantined in ((["solver-b"], 1, 0), (["solver-c"], 0, 1), ([], 0, 0)):
        chosen = Selection(package="solvers", packaged=packaged)
        with Snapshot(folder) as snapshot:
            report = write_pack(snapshot, target.identity, chosen, tmp_path / "p.lmdb")
        manifest = report.pack.manifest
        assert (manifest.records, manifest.configs) == (2, configs)
        assert manifest.quarantined == quarantined


def quarantine() -> QuarantineRecord:
    return QuarantineRecord(
        solver="solver-c", solver_version=1, source_hash="", driver="driver 1", reason="crashed"
    )


def resealed(pack: Path, output: Path, change: Callable[[bytes, dict[str, Any]], Any]) -> Path:
    """Write a pack anew, with other pages or another manifest, and a hash that is right."""
    data = pack.read_bytes()
    length, _, magic = _TAIL.unpack(data[-_TAIL.size :])
    end = len(data) - _TAIL.size
    pages, manifest = data[: end - length], json.loads(data[end - length : end])
    changed = change(pages, manifest)
    pages, text = changed if isinstance(changed, tuple) else (pages, changed)
    if not isinstance(text, bytes):
        text = json.dumps(text).encode()
    body = pages + text + len(text).to_bytes(4, "little")
    output.write_bytes(body + hashlib.sha256(body).digest() + magic)
    return output


def test_a_pack_says_what_it_holds(shell: Any, packed: Path, target: Target) -> None:
    (found,) = shell.json("db", "packs", packed)["packs"]
    assert found["fault"] is None
    manifest = found["manifest"]
    assert manifest["device"] == target.identity
    assert (manifest["problems"], manifest["records"]) == (2, 3)
    assert (manifest["configs"], manifest["quarantined"]) == (1, 1)
    assert manifest["drivers"] == ["driver 1"]
    assert manifest["packages"] == ["solvers 1.0"]
    assert read_pack(packed).sha256 == found["sha256"]
    assert target.identity in shell("db", "packs", packed).stdout


def test_a_pack_is_a_database_that_is_only_read(shell: Any, packed: Path, tmp_path: Path) -> None:
    before = packed.read_bytes()
    assert shell.json("db", "stats", packed)["results"] == 3
    assert "read-only" in shell.error("db", "merge", tmp_path / "fleet", "--to", packed)
    shell("db", "merge", packed, "--to", tmp_path / "copy")
    assert shell.json("db", "stats", tmp_path / "copy")["results"] == 3
    assert packed.read_bytes() == before
    assert [path.name for path in tmp_path.glob("test.lmdb*")] == ["test.lmdb"]


def test_the_same_records_give_the_same_file(
    shell: Any, packed: Path, store: Store, tmp_path: Path
) -> None:
    again = tmp_path / "again.lmdb"
    shell("db", "merge", packed, "--to", tmp_path / "copy")
    shell("db", "pack", tmp_path / "copy", "--device", "Test", "--output", again)
    assert again.read_bytes() == packed.read_bytes()


def test_filters_choose_what_is_packed(shell: Any, packed: Path, tmp_path: Path) -> None:
    output = tmp_path / "b.lmdb"
    words = ("db", "pack", tmp_path / "fleet", "--device", "Test Device", "--output", output)
    assert shell.json(*words, "--solver", "solver-b")["manifest"]["records"] == 1
    assert shell.json(*words, "--older-than", "52w")["manifest"]["problems"] == 1
    assert "no records" in shell.error(*words, "--dtype", "float16")


def test_who_is_left_out_does_not_count_as_considered(
    packed: Path, tmp_path: Path, record: Make, target: Target, problem: ConvProblem
) -> None:
    with FindDb.open(tmp_path / "db") as database:
        entry = FindEntry(
            records=(record("a", 1.0), record("b", 2.0)), considered=("a@1", "b@1", "c@1")
        )
        database.store(target, problem, entry)
    with Snapshot(tmp_path / "db") as snapshot:
        write_pack(snapshot, target.identity, Selection(solver="a"), tmp_path / "a.lmdb")
    with Snapshot(tmp_path / "a.lmdb") as snapshot:
        (found,) = own_entries(snapshot)
        rosters = [roster_names(*item) for item in snapshot.items(ROSTER) if item[0] != NEWEST]
    assert found.considered == ("a@1", "c@1")
    assert rosters == [("a@1", "c@1")]


def test_the_device_to_pack_must_be_one(shell: Any, packed: Path, tmp_path: Path) -> None:
    def words(device: str, name: str = "x.lmdb") -> tuple[object, ...]:
        output = tmp_path / name
        return ("db", "pack", tmp_path / "fleet", "--device", device, "--output", output)

    assert "means 2 devices" in shell.error(*words("device"))
    assert "no records of 'gfx90a'" in shell.error(*words("gfx90a"))
    assert "ends in .lmdb" in shell.error(*words("Test Device", "x.pack"))
    assert not (tmp_path / "x.lmdb").exists()


# -- installing ---------------------------------------------------------------------------------


class Mock:
    """A plugin with the mock backend."""

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(MockBackend)


@pytest.fixture
def mock_pack(
    tmp_path: Path, record: Make, problem: ConvProblem
) -> tuple[Registry, Settings, Path, Target]:
    """A pack for the device of the mock backend, and a machine that has it."""
    registry = Registry.build([Mock()], load_entry_points=False)
    ((_, target),) = convfind.devices(registry=registry).devices
    with FindDb.open(tmp_path / "other-machine") as database:
        entry = FindEntry(records=(record("solver-a", 1.5),), considered=("solver-a@1",))
        database.store(target, problem, entry)
    with Snapshot(tmp_path / "other-machine") as snapshot:
        write_pack(snapshot, target.identity, Selection(), tmp_path / "mock.lmdb")
    return registry, Settings(user_db_path=tmp_path / "user"), tmp_path / "mock.lmdb", target


def test_an_installed_pack_is_a_layer_of_finds(
    shell: Any,
    mock_pack: tuple[Registry, Settings, Path, Target],
    record: Make,
    problem: ConvProblem,
) -> None:
    registry, settings, pack, target = mock_pack
    shell.plugins = (Mock(),)
    first = shell.json("db", "install", pack)
    assert first["new"]
    assert not shell.json("db", "install", pack)["new"]
    with convfind.open("mock", registry=registry, settings=settings) as handle:
        stored = handle.database.lookup(target, problem)
        assert stored is not None
        assert [one.time_ms for one in stored.entry.records] == [1.5]
        assert not stored.from_user
        handle.database.store(target, problem, FindEntry(records=(record("solver-a", 9.0),)))
        stored = handle.database.lookup(target, problem)
        assert stored is not None
        assert [one.time_ms for one in stored.entry.records] == [9.0]  # the user's wins
        assert not handle.database.health()
    (listed,) = shell.json("db", "packs")["packs"]
    assert listed["path"] == first["installed"]
    assert listed["devices_here"] == ["mock:0"]
    facts = json.loads(shell("doctor", "--json", code=None).stdout)
    assert facts["database"]["packs"] == [first["installed"]]

    shell("db", "packs", "--uninstall", listed["sha256"][:8])
    assert shell.json("db", "packs")["packs"] == []
    assert "no pack" in shell.error("db", "packs", "--uninstall", listed["sha256"][:8])


def test_a_package_of_solvers_ships_a_pack(
    mock_pack: tuple[Registry, Settings, Path, Target], problem: ConvProblem
) -> None:
    _, settings, pack, target = mock_pack
    before = pack.read_bytes()

    class Shipping:
        @hookimpl
        def convfind_system_databases(self) -> list[Path]:
            return [pack]

    registry = Registry.build([Mock(), Shipping()], load_entry_points=False)
    with convfind.open("mock", registry=registry, settings=settings) as handle:
        stored = handle.database.lookup(target, problem)
        assert stored is not None
        assert [one.time_ms for one in stored.entry.records] == [1.5]
    assert pack.read_bytes() == before


def test_the_pack_installed_last_lies_uppermost(
    shell: Any,
    mock_pack: tuple[Registry, Settings, Path, Target],
    record: Make,
    problem: ConvProblem,
    tmp_path: Path,
) -> None:
    registry, settings, pack, target = mock_pack
    shell.plugins = (Mock(),)
    with FindDb.open(tmp_path / "newer") as database:
        database.store(target, problem, FindEntry(records=(record("solver-a", 4.0),)))
    shell("db", "pack", tmp_path / "newer", "--device", "mock", "--output", tmp_path / "n.lmdb")
    for number, file in enumerate((pack, tmp_path / "n.lmdb")):
        place = shell.json("db", "install", file)["installed"]
        os.utime(place, (number, number))
    with convfind.open("mock", registry=registry, settings=settings) as handle:
        stored = handle.database.lookup(target, problem)
    assert stored is not None
    assert [one.time_ms for one in stored.entry.records] == [4.0]


def test_a_pack_for_another_device_is_refused_unless_wanted(
    shell: Any, packed: Path, target: Target
) -> None:
    user = shell.settings.user_db_path
    assert target.identity in shell.error("db", "install", packed)
    assert not user.exists()
    shell("db", "install", packed, "--any-device")
    assert len(installed_packs(user, target.identity)) == 1
    assert installed_packs(user, "another|device|x|y|1") == ()
    assert "no" in shell("db", "packs").stdout


def test_the_hash_may_be_demanded(shell: Any, packed: Path) -> None:
    sha256 = read_pack(packed).sha256
    assert sha256 in shell.error("db", "install", packed, "--any-device", "--sha256", "0" * 64)
    shell("db", "install", packed, "--any-device", "--sha256", sha256.upper())


@pytest.mark.parametrize("hash_", ["", "0", "5f0c2a9", "sha256:5f0c2a9be411", "0" * 65])
def test_a_hash_that_demands_nothing_is_refused(shell: Any, packed: Path, hash_: str) -> None:
    error = shell.error("db", "install", packed, "--any-device", "--sha256", hash_)
    assert "no SHA-256" in error
    assert not shell.settings.user_db_path.exists()


def test_a_pack_that_changes_after_its_check_is_never_installed(
    packed: Path, tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, bytes_ = tmp_path / "user", packed.read_bytes()
    meanwhile: list[Path] = []

    def change(pack: Pack) -> None:
        packed.write_bytes(flipped(bytes_, 0))

    def copied(source: Path, output: Path) -> None:
        copy_file(source, output)
        meanwhile.extend(installed_packs(user))

    monkeypatch.setattr("convfind_finddb_tools.installing.copy_file", copied)
    with pytest.raises(FindDbError, match="was changed while it was being installed"):
        install_pack(packed, user, {"here": target}, check=change)
    assert meanwhile == []
    assert list(packs_folder(user).iterdir()) == []


def test_a_pack_that_changes_before_its_check_is_refused(packed: Path) -> None:
    pack = read_pack(packed)
    packed.write_bytes(flipped(packed.read_bytes(), 0))
    with pytest.raises(FindDbCorruptError, match="changed while it was being checked"):
        check_pack(pack)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "is no pack"),
        (lambda data: data[:20], "is no pack"),
        (lambda data: data[:-1], "its end is missing"),
        (lambda data: data[:-5000], "its end is missing"),
        (lambda data: data[4096:], "is damaged"),
        (lambda data: flipped(data, 100), "is damaged"),
        (lambda data: flipped(data, len(data) - 20), "is damaged"),
        (lambda data: flipped(data, len(data) - 60), "is damaged"),
        (lambda data: b"x" * 1000 + data[-44:], "is damaged"),
        (lambda data: b"text\n" * 5000, "is no pack"),
    ],
)
def test_damaged_packs_change_nothing(
    shell: Any, packed: Path, tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    bad = tmp_path / "bad.lmdb"
    bad.write_bytes(change(packed.read_bytes()))
    assert message in shell.error("db", "install", bad, "--any-device")
    assert not shell.settings.user_db_path.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "upgrade convfind"),
        ({"version": 0}, "upgrade convfind"),
        ({"schema": 99}, "upgrade convfind"),
        ({"device": "../../../../etc"}, "no identity"),
        ({"device": "a|b|c|d\n|1"}, "no identity"),
        ({"device": "a|../../../b|c|d|1"}, "not of its device"),
        ({"problems": 1 << 60}, "manifest counts"),
        ({"records": 2}, "manifest counts"),
        ({"records": "3"}, "cannot be read"),
        (b"[]", "cannot be read"),
        (b"{", "cannot be read"),
        (b"\xff" * 100, "cannot be read"),
        (b'{"x":' + b"[" * 99999 + b"]" * 99999 + b"}", "cannot be read"),
        (b" " * (2 << 20), "a manifest of"),
    ],
)
def test_hostile_manifests_change_nothing(
    shell: Any, packed: Path, tmp_path: Path, change: dict[str, Any] | bytes, message: str
) -> None:
    bad = resealed(
        packed,
        tmp_path / "bad.lmdb",
        lambda pages, manifest: manifest | change if isinstance(change, dict) else change,
    )
    assert message in shell.error("db", "install", bad, "--any-device")
    assert not shell.settings.user_db_path.exists()


def test_a_manifest_longer_than_the_file_is_refused(
    shell: Any, packed: Path, tmp_path: Path
) -> None:
    data = packed.read_bytes()
    body = data[: -_TAIL.size] + (0xFFFF_FFFF).to_bytes(4, "little")
    bad = tmp_path / "bad.lmdb"
    bad.write_bytes(body + hashlib.sha256(body).digest() + data[-8:])
    assert "a manifest of 4294967295 bytes" in shell.error("db", "install", bad, "--any-device")


@pytest.mark.parametrize("place", [40, 4096 + 136, 2 * 4096 + 12, 3 * 4096 + 16])
def test_hostile_pages_never_reach_lmdb(
    shell: Any, packed: Path, tmp_path: Path, place: int
) -> None:
    bad = resealed(
        packed,
        tmp_path / "bad.lmdb",
        lambda pages, manifest: (pages[:place] + b"\xff" * 8 + pages[place + 8 :], manifest),
    )
    assert "is no pack to install" in shell.error("db", "install", bad, "--any-device")
    assert not shell.settings.user_db_path.exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"algorithm": "quantum"}, "algorithm 'quantum' is none of"),
        ({"time_ms": -1.0}, "not above 0"),
        ({"time_ms": float("nan")}, "not above 0"),
        ({"spread_ms": -1.0}, "spread"),
        ({"error": float("inf")}, "error"),
        ({"workspace": -1}, "workspace -1"),
        ({"solver": ""}, "no solver"),
    ],
)
def test_values_that_no_search_records_are_refused(
    shell: Any,
    packed: Path,
    tmp_path: Path,
    target: Target,
    problem: ConvProblem,
    fields: dict[str, Any],
    message: str,
) -> None:
    made: dict[str, Any] = {
        "solver": "s",
        "solver_version": 1,
        "package": "p",
        "algorithm": "direct",
        "time_ms": 1.0,
    }
    entry = FindEntry(records=(FindRecord(**(made | fields)),))
    file = tmp_path / "pages.lmdb"
    with lmdb.open(str(file), subdir=False, max_dbs=4, lock=False, lib_version=0) as environment:
        with environment.begin(write=True) as transaction:
            meta = environment.open_db(b"meta", txn=transaction)
            transaction.put(b"schema", b"1", db=meta)
            find = environment.open_db(b"find", txn=transaction)
            key = f"1|{target.identity}|{problem.key}".encode()
            change = Change({"find": find}.get, transaction)
            change.put("find", key, FIND.pack(key, entry, change))
        with (tmp_path / "copy").open("wb") as copy:
            environment.copyfd(copy.fileno(), compact=True)
    bad = resealed(
        packed,
        tmp_path / "bad.lmdb",
        lambda pages, manifest: ((tmp_path / "copy").read_bytes(), manifest),
    )
    assert message in shell.error("db", "install", bad, "--any-device")
    assert not shell.settings.user_db_path.exists()


def test_names_of_installed_packs_hold_no_paths() -> None:
    for identity in ("a|../../x|..\\y|/z|1", ".hidden|b|c|d|2", "x" * 900 + "|b|c|d|3"):
        name = pack_prefix(identity)
        assert not set("/\\|\0") & set(name)
        assert not name.startswith(".")
        assert len(name) < 200


def test_damaged_installed_packs_are_listed_and_skipped(
    shell: Any, packed: Path, target: Target, problem: ConvProblem, recwarn: Any
) -> None:
    place = Path(shell.json("db", "install", packed, "--any-device")["installed"])
    data = place.read_bytes()
    place.chmod(0o600)
    place.write_bytes(data[: len(data) // 2])
    assert "damaged" in shell("db", "packs", code=1).stdout
    user = shell.settings.user_db_path
    with FindDb.open(user, installed_packs(user, target.identity)) as database:
        assert database.lookup(target, problem) is None
    assert any("skipped" in str(warning.message) for warning in recwarn.list)
    assert shell.json("db", "install", packed, "--any-device")["new"]  # replaces it
    assert place.read_bytes() == data
    assert list(packs_folder(user).iterdir()) == [place]
