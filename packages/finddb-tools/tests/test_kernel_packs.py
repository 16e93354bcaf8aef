"""Packs of kernels: compiled here, installed elsewhere by whoever says whose they are."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import convfind
from convfind.finddb import FindDb, FindEntry
from convfind.finddb.kernel_pack import write_kernels
from convfind.finddb.pack import read_pack
from convfind.finddb.packs import installed_packs
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.settings import Settings
from convfind.testing import MOCK_TARGET, MockBackend
from convfind.testing.solvers import mock_solvers

SHAPES = ("--x", "1,4,8,8", "--w", "4,4,3,3")


class Mock:
    """A plugin with the mock backend and its solvers."""

    def __init__(self) -> None:
        self.backend = MockBackend()

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(self.backend)

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.extend(mock_solvers())


@pytest.fixture
def mock(shell: Any) -> Mock:
    """The plugin of the program."""
    plugin = Mock()
    shell.plugins = (plugin,)
    return plugin


@pytest.fixture
def packed(shell: Any, mock: Mock, tmp_path: Path) -> Path:
    """A pack that another machine with the mock device has compiled."""
    here, shell.settings = shell.settings, Settings(user_db_path=tmp_path / "other-machine")
    shell("compile", *SHAPES, "--output", tmp_path / "k.lmdb", code=1)  # one never builds
    shell.settings = here
    return tmp_path / "k.lmdb"


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def resealed(pack: Path, output: Path, change: Callable[[bytes, Any], tuple[bytes, Any]]) -> Path:
    """Write a pack with other pages or another manifest, and a hash that is right."""
    data = pack.read_bytes()
    (length,) = struct.unpack_from("<I", data, len(data) - 44)
    end = len(data) - 44
    pages, manifest = change(data[: end - length], json.loads(data[end - length : end]))
    text = json.dumps(manifest).encode()
    body = pages + text + struct.pack("<I", len(text))
    output.write_bytes(body + hashlib.sha256(body).digest() + data[-8:])
    return output


def hash_of(pack: Path) -> str:
    return read_pack(pack).sha256


def test_a_find_compiles_nothing_that_is_installed(shell: Any, mock: Mock, packed: Path) -> None:
    place = shell.json("db", "install", packed, "--sha256", hash_of(packed))["installed"]
    before = mock.backend.counters.compiles
    found = shell.json("find", *SHAPES, "--mode", "normal")
    assert found["measured"] > 1
    assert mock.backend.counters.compiles == before + 1, "the one that does not build"
    (listed,) = shell.json("db", "packs")["packs"]
    assert (listed["path"], listed["devices_here"]) == (place, ["mock:0"])
    assert listed["manifest"]["kernels"] > 1
    assert shell.json("db", "stats", packed)["results"] == 0
    shell("db", "packs", "--uninstall", hash_of(packed)[:8])
    assert shell.json("db", "packs")["packs"] == []


@pytest.mark.parametrize("digits", [None, 8, 63])
def test_kernels_want_a_word_about_who_made_them(
    shell: Any, packed: Path, digits: int | None
) -> None:
    words = () if digits is None else ("--sha256", hash_of(packed)[:digits])
    told = shell.error("db", "install", packed, "--any-device", *words)
    assert "which are code" in told
    assert not shell.settings.user_db_path.exists()


def test_a_trusted_signature_is_such_a_word(shell: Any, packed: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    for name in ("our", "other"):
        shell("db", "keygen", tmp_path / f"{name}.key")
    trust = ("db", "install", packed, "--trust", tmp_path / "our.key.pub")
    assert "not signed" in shell.error(*trust)
    shell("db", "sign", packed, "--key", tmp_path / "other.key")
    assert "no key that you trust" in shell.error(*trust)
    assert not shell.settings.user_db_path.exists()
    made = shell.json("db", "sign", packed, "--key", tmp_path / "our.key")
    assert made["signature"] == f"{packed}.sig"
    assert shell.json(*trust)["new"]


def test_kernels_of_another_compiler_are_for_later_and_said_to_be(
    shell: Any, mock: Mock, tmp_path: Path
) -> None:
    older = replace(MOCK_TARGET, driver="mock 0.9")
    pack = write_kernels(tmp_path / "old.lmdb", older, [("a", b"one")]).path
    words = ("db", "install", pack, "--sha256", hash_of(pack))
    told = shell.error(*words)
    assert f"is for {older.compiler}, here is {MOCK_TARGET.compiler}" in told
    shell(*words, "--any-device")
    listed = shell("db", "packs")
    assert f"is not used here: {older.compiler} compiled it" in listed.stderr
    assert installed_packs(shell.settings.user_db_path, MOCK_TARGET.compiler) == ()
    before = mock.backend.counters.compiles
    shell("find", *SHAPES)
    assert mock.backend.counters.compiles > before


def test_another_device_of_the_same_compiler_uses_them(
    shell: Any, mock: Mock, tmp_path: Path
) -> None:
    larger = replace(MOCK_TARGET, compute_units=99, identity="")
    pack = write_kernels(tmp_path / "large.lmdb", larger, [("a", b"one")]).path
    assert shell.json("db", "install", pack, "--sha256", hash_of(pack))["new"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "its end is missing"),
        (lambda data: data[:5000], "its end is missing"),
        (lambda data: flipped(data, 9000), "is damaged"),
        (lambda data: flipped(data, len(data) - 60), "is damaged"),
    ],
)
def test_damaged_kernels_change_nothing(
    shell: Any, packed: Path, tmp_path: Path, change: Any, message: str
) -> None:
    bad = tmp_path / "bad.lmdb"
    bad.write_bytes(change(packed.read_bytes()))
    assert message in shell.error("db", "install", bad, "--sha256", hash_of(packed))
    assert not shell.settings.user_db_path.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernels": 0}, "manifest counts 0 kernels"),
        ({"kernels": 10**9}, "manifest counts 1000000000 kernels"),
        ({"compiler": ""}, "kernels; it has"),
        ({"compiler": "x"}, "no identity of a compiler"),
        ({"compiler": "a|b|c\n|d"}, "no identity of a compiler"),
        ({"compiler": None}, "cannot be read"),
        ({"records": 1}, "manifest counts"),
    ],
)
def test_hostile_manifests_of_kernels_change_nothing(
    shell: Any, packed: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    bad = resealed(packed, tmp_path / "bad.lmdb", lambda pages, said: (pages, said | change))
    sha256 = bad.read_bytes()[-40:-8].hex()
    told = shell.error("db", "install", bad, "--any-device", "--sha256", sha256)
    assert message in told
    assert not shell.settings.user_db_path.exists()


def test_a_binary_that_is_not_its_keys_is_refused(shell: Any, mock: Mock, tmp_path: Path) -> None:
    made = write_kernels(tmp_path / "a.lmdb", MOCK_TARGET, [("abcd", b"1" * 64), ("efgh", b"2")])
    bad = resealed(
        made.path,
        tmp_path / "bad.lmdb",
        lambda pages, manifest: (pages.replace(b"1" * 64, b"3" * 64), manifest),
    )
    told = shell.error("db", "install", bad, "--sha256", hash_of(bad))
    assert "the kernel 'abcd' is damaged" in told


def test_records_that_say_to_be_kernels_are_refused(
    shell: Any, mock: Mock, tmp_path: Path, record: Any, problem: Any
) -> None:
    with FindDb.open(tmp_path / "db") as database:
        database.store(MOCK_TARGET, problem, FindEntry(records=(record(),)))
    records = tmp_path / "records.lmdb"
    shell("db", "pack", tmp_path / "db", "--device", "mock", "--output", records)
    named = {"kernels": 1, "compiler": MOCK_TARGET.compiler}
    bad = resealed(records, tmp_path / "bad.lmdb", lambda pages, said: (pages, said | named))
    told = shell.error("db", "install", bad, "--sha256", hash_of(bad))
    assert "manifest counts 1 kernels; it has 0" in told


def test_links_are_followed_once_and_what_is_no_file_is_no_pack(
    shell: Any, packed: Path, tmp_path: Path
) -> None:
    (tmp_path / "link.lmdb").symlink_to(packed)
    (tmp_path / "circle.lmdb").symlink_to(tmp_path / "circle.lmdb")
    os.mkfifo(tmp_path / "pipe.lmdb")
    sha256 = ("--sha256", hash_of(packed))
    for name in ("circle", "pipe", "missing"):
        assert f"{name}.lmdb" in shell.error("db", "install", tmp_path / f"{name}.lmdb", *sha256)
    for place in (tmp_path, Path(os.devnull)):
        assert "is no file" in shell.error("db", "install", place, *sha256)
    place = Path(shell.json("db", "install", tmp_path / "link.lmdb", *sha256)["installed"])
    assert not place.is_symlink()
    packed.unlink()
    assert read_pack(place).manifest.kernels > 1


def test_kernels_have_no_times_to_verify(shell: Any, packed: Path) -> None:
    told = shell.error("db", "install", packed, "--sha256", hash_of(packed), "--verify", 3)
    assert "no records to measure" in told
    assert not shell.settings.user_db_path.exists()


def test_who_disables_the_cache_of_binaries_uses_no_kernels(
    shell: Any, mock: Mock, packed: Path
) -> None:
    shell("db", "install", packed, "--sha256", hash_of(packed))
    before = mock.backend.counters.compiles
    off = replace(shell.settings, disable_binary_cache=True)
    registry = Registry.build([mock], load_entry_points=False)
    with convfind.open("mock", registry=registry, settings=off) as handle:
        handle.find(convfind.ConvProblem.forward(x=(1, 4, 8, 8), w=(4, 4, 3, 3)))
    assert mock.backend.counters.compiles > before
