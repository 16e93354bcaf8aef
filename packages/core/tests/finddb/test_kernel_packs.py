"""Packs of kernels: binaries in a file below the user's own, which is never written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from convfind.errors import FindDbError
from convfind.finddb import BinaryStore, FindDbWarning
from convfind.finddb.kernel_pack import write_kernels
from convfind.finddb.pack import is_of_kernels, read_pack
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.testing import MOCK_TARGET

BINARIES = {"b": b"two" * 100_000, "a": b"one", "c" * 600: b"three"}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_kernels(tmp_path / "kernels.lmdb", MOCK_TARGET, BINARIES.items()).path


def test_a_store_lies_over_packs_and_is_the_only_one_written(pack: Path, tmp_path: Path) -> None:
    before = pack.read_bytes()
    with BinaryStore.open(tmp_path / "user", [pack]) as store:
        assert {key: store.get(key) for key in BINARIES} == BINARIES
        assert store.get("d") is None
        store.put("a", b"mine")
        assert store.get("a") == b"mine"
        assert store.health() == []
    with BinaryStore.open(tmp_path / "user") as store:
        assert (store.get("a"), store.get("b")) == (b"mine", None)
    assert pack.read_bytes() == before
    assert [path.name for path in tmp_path.glob("kernels.lmdb*")] == ["kernels.lmdb"]


def test_earlier_packs_win_and_a_store_in_memory_has_them_too(pack: Path, tmp_path: Path) -> None:
    other = write_kernels(tmp_path / "o.lmdb", MOCK_TARGET, [("a", b"other"), ("d", b"four")]).path
    for packs, first in (([other, pack], b"other"), ([pack, other], b"one")):
        with BinaryStore.open(None, packs) as store:
            assert [store.get("a"), store.get("d")] == [first, b"four"]


def test_the_same_binaries_give_the_same_file_in_any_order(pack: Path, tmp_path: Path) -> None:
    turned = reversed(BINARIES.items())
    again = write_kernels(tmp_path / "again.lmdb", MOCK_TARGET, turned)
    assert again.path.read_bytes() == pack.read_bytes()
    manifest = again.manifest
    assert (manifest.kernels, manifest.records) == (3, 0)
    assert manifest.compiler == MOCK_TARGET.compiler
    assert manifest.device == MOCK_TARGET.identity
    assert again.sha256 == read_pack(pack).sha256


@pytest.mark.parametrize("keep", [0, 100, 4096, 9000])
def test_a_pack_that_is_cut_short_is_skipped(pack: Path, tmp_path: Path, keep: int) -> None:
    content = pack.read_bytes()
    pack.chmod(0o600)
    pack.write_bytes(content[:keep])
    assert not is_of_kernels(pack)
    with BinaryStore.open(tmp_path / "user", [pack, tmp_path / "missing.lmdb"]) as store:
        with pytest.warns(FindDbWarning, match="skipped"):
            assert store.get("b") is None
        assert len(store.health()) == 2


def test_a_damaged_binary_is_missing(pack: Path, tmp_path: Path) -> None:
    content = pack.read_bytes()
    pack.chmod(0o600)
    pack.write_bytes(content.replace(b"twotwo", b"twotwO", 1))
    with BinaryStore.open(tmp_path / "user", [pack]) as store:
        assert store.get("b") is None
        assert store.get("a") == b"one"
        store.put("b", b"anew")
        assert store.get("b") == b"anew"


def test_nothing_makes_no_pack(tmp_path: Path) -> None:
    with pytest.raises(FindDbError, match="nothing compiles"):
        write_kernels(tmp_path / "none.lmdb", MOCK_TARGET, [])
    with pytest.raises(FindDbError, match=r"ends in \.lmdb"):
        write_kernels(tmp_path / "kernels.kdb", MOCK_TARGET, BINARIES.items())
    assert list(tmp_path.iterdir()) == []


def test_what_packages_ship_is_told_apart(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    shipped = [tmp_path / "records", pack]

    class Shipping:
        @hookimpl
        def convfind_system_databases(self) -> list[Path]:
            return shipped

    registry = Registry.build([Shipping()], load_entry_points=False)
    assert registry.system_databases() == (tmp_path / "records",)
    assert registry.kernel_packs() == (pack,)
