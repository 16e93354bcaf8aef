"""Signed packs: only what a trusted key vouches for is installed, whole and unchanged."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry, FindRecord
from convfind.finddb.packs import installed_packs
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, SolverRegistry
from convfind.problem import ConvProblem
from convfind.testing.mock_backend import MOCK_TARGET, MockBackend, MockFaults
from convfind.testing.solvers import mock_solvers
from convfind_finddb_tools.drift import measure_again

pytest.importorskip("cryptography", reason="cryptography is not installed")

Store = Callable[..., Path]
Make = Callable[..., FindRecord]
SMALL = ConvProblem.forward((1, 4, 8, 8), (4, 4, 3, 3))


@pytest.fixture
def keys(shell: Any, tmp_path: Path) -> Path:
    """A folder with two keys, ours and another's."""
    for name in ("our.key", "other.key"):
        shell("db", "keygen", tmp_path / name)
    return tmp_path


@pytest.fixture
def signed(shell: Any, store: Store, record: Make, keys: Path) -> Path:
    """A pack that our key signed."""
    folder, output = store("fleet", record("solver-a", 1.5, spread_ms=0.15)), keys / "test.lmdb"
    words = ("db", "pack", folder, "--device", "test", "--output", output)
    shell(*words, "--sign", keys / "our.key")
    return output


def install(shell: Any, pack: Path, *words: object) -> list[object]:
    return ["db", "install", pack, "--any-device", *words]


def test_a_key_is_its_owners_only_and_stays(shell: Any, tmp_path: Path) -> None:
    made = shell.json("db", "keygen", tmp_path / "a.key")
    secret = (tmp_path / "a.key").read_bytes()
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
    assert (tmp_path / "a.key.pub").read_text().strip() == made["public"]
    assert "exists already" in shell.error("db", "keygen", tmp_path / "a.key")
    assert (tmp_path / "a.key").read_bytes() == secret


def test_a_public_key_that_is_there_is_not_replaced(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "a.key.pub").write_text("another's\n")
    assert "a.key.pub exists already" in shell.error("db", "keygen", tmp_path / "a.key")
    assert (tmp_path / "a.key.pub").read_text() == "another's\n"
    assert not (tmp_path / "a.key").exists()


def test_who_trusts_a_private_key_is_told(shell: Any, signed: Path, keys: Path) -> None:
    error = shell.error(*install(shell, signed, "--trust", keys / "our.key"))
    assert "is a private key" in error
    assert "our.key.pub" in error


def test_a_pack_by_a_trusted_key_is_installed_with_its_signature(
    shell: Any, signed: Path, keys: Path
) -> None:
    shell(*install(shell, signed, "--trust", keys / "our.key.pub"))
    (place,) = installed_packs(shell.settings.user_db_path)
    copied = json.loads(Path(f"{place}.sig").read_text())
    assert copied["key"] == (keys / "our.key.pub").read_text().strip()
    statement = json.loads(copied["statement"])
    assert {"machine", "convfind", "python", "signed", "sha256", "device"} <= set(statement)
    (listed,) = shell.json("db", "packs")["packs"]
    assert listed["manifest"]["noise"] == pytest.approx(0.1)
    shell("db", "packs", "--uninstall", place.name)
    assert not list(place.parent.glob("*.sig"))


def test_trust_is_asked_for_only_on_request(shell: Any, signed: Path) -> None:
    Path(f"{signed}.sig").unlink()
    shell(*install(shell, signed))
    assert installed_packs(shell.settings.user_db_path)


def test_a_file_of_keys_may_have_comments_and_several(shell: Any, signed: Path, keys: Path) -> None:
    both = [
        f"{(keys / f'{name}.key.pub').read_text().strip()} # {name}" for name in ("other", "our")
    ]
    (keys / "trusted").write_text("# the team\n" + "\n".join(both) + "\n")
    shell(*install(shell, signed, "--trust", keys / "trusted"))


def _other_bytes(pack: Path) -> None:
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    data[5000] ^= 1
    pack.write_bytes(data)


def _change(field: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def tamper(pack: Path) -> None:
        path = Path(f"{pack}.sig")
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {field: change(content[field])}))

    return tamper


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (_other_bytes, "is damaged: its SHA-256"),
        (_change("statement", lambda text: text.replace("Test", "Best")), "no signature of its"),
        (_change("signature", lambda text: "00" + text[2:]), "no signature of its"),
        (_change("signature", lambda text: "no hexadecimal"), "no signature of its"),
        (_change("key", lambda text: "ed25519:" + 64 * "0"), "no key that you trust"),
        (lambda pack: Path(f"{pack}.sig").unlink(), "the pack is not signed"),
        (lambda pack: Path(f"{pack}.sig").write_text("[]"), "is no signature"),
    ],
)
def test_a_tampered_pack_is_refused(
    shell: Any, signed: Path, keys: Path, tamper: Callable[[Path], None], message: str
) -> None:
    tamper(signed)
    assert message in shell.error(*install(shell, signed, "--trust", keys / "our.key.pub"))
    assert not installed_packs(shell.settings.user_db_path)


def test_a_signature_is_of_one_pack_only(
    shell: Any, signed: Path, keys: Path, store: Store, record: Make
) -> None:
    other = keys / "other.lmdb"
    folder = store("others", record("solver-b", 0.1))
    shell("db", "pack", folder, "--device", "test", "--output", other)
    Path(f"{signed}.sig").rename(f"{other}.sig")
    message = shell.error(*install(shell, other, "--trust", keys / "our.key.pub"))
    assert "signs a pack with SHA-256" in message


def test_another_key_is_not_trusted(shell: Any, signed: Path, keys: Path) -> None:
    message = shell.error(*install(shell, signed, "--trust", keys / "other.key.pub"))
    assert "which is no key that you trust" in message


def test_what_is_no_key_is_refused(shell: Any, signed: Path, keys: Path) -> None:
    (keys / "bad").write_text("not a key\n")
    assert "is no public key" in shell.error(*install(shell, signed, "--trust", keys / "bad"))
    words = ("db", "pack", keys / "fleet", "--device", "test", "--output", keys / "b.lmdb")
    assert "is no key" in shell.error(*words, "--sign", keys / "bad")


# -- measuring on installation --------------------------------------------------------------------


class MockPlugin:
    """The mock backend and its solvers."""

    __name__ = "mock-plugin"
    __version__ = "1.5"

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(MockBackend())

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.extend(mock_solvers())


class Slowed(MockPlugin):
    """The same with a device that takes so many times as long."""

    def __init__(self, slowdown: float) -> None:
        self.faults = MockFaults(slowdown=slowdown)

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(MockBackend(faults=self.faults))


def measured_pack(
    shell: Any, folder: Path, factor: float, target: Target = MOCK_TARGET, slowdown: float = 1.0
) -> Path:
    """Find on the mock device, and pack the records with their times multiplied."""
    shell.plugins = (Slowed(slowdown),)
    shell("find", "--device", "mock", SMALL.key)
    with FindDb.open(shell.settings.user_db_path) as database:
        stored = database.lookup(target, SMALL)
        assert stored is not None
        records = tuple(
            msgspec.structs.replace(record, time_ms=record.time_ms * factor)
            for record in stored.entry.records
        )
    with FindDb.open(folder / "told") as database:
        database.store(target, SMALL, FindEntry(records=records), replace=True)
    output = folder / "told.lmdb"
    shell("db", "pack", folder / "told", "--device", "mock", "--output", output)
    return output


def test_true_records_are_installed_after_measuring(shell: Any, tmp_path: Path) -> None:
    pack = measured_pack(shell, tmp_path, 1.0)
    (record,) = shell.json("db", "install", pack, "--verify", "3")["measured"]
    assert record["problem"] == SMALL.key
    assert record["ratio"] == pytest.approx(1.0)


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_records_that_contradict_what_is_measured_are_refused(
    shell: Any, tmp_path: Path, factor: float
) -> None:
    pack = measured_pack(shell, tmp_path, factor, slowdown=100.0)
    message = shell.error("db", "install", pack, "--verify", "1")
    assert "contradicts this machine" in message
    assert SMALL.key in message
    assert not installed_packs(shell.settings.user_db_path)
    shell("db", "install", pack)  # nobody asked


@pytest.mark.parametrize("factor", [0.5, 1.8])
def test_what_launches_differ_by_contradicts_no_record(
    shell: Any, tmp_path: Path, factor: float
) -> None:
    pack = measured_pack(shell, tmp_path, factor)  # of less than 0.06 ms
    (record,) = shell.json("db", "install", pack, "--verify", "1")["measured"]
    assert record["ratio"] == pytest.approx(1 / factor)


def test_a_busy_moment_is_no_contradiction(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = measured_pack(shell, tmp_path, 1.0)
    busy, factors = Slowed(1.0), [10.0, 3.0, 1.0]

    def measured(handle: Any, records: Any) -> Any:
        busy.faults.slowdown = factors.pop(0)
        return measure_again(handle, records)

    shell.plugins = (busy,)
    monkeypatch.setattr("convfind_finddb_tools.pack_timing.measure_again", measured)
    (record,) = shell.json("db", "install", pack, "--verify", "1")["measured"]
    assert record["ratio"] == pytest.approx(1.0)
    assert not factors


def test_measuring_needs_the_device(shell: Any, signed: Path) -> None:
    assert "not here to measure on" in shell.error(*install(shell, signed, "--verify", "1"))
