"""The store of compiled kernels."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from convfind.finddb import BinaryStore, Gathered
from convfind.finddb.binary_store import FILE_NAME
from convfind.finddb.database_file import DatabaseFile
from convfind.finddb.environment import Environment, Transaction

OneWarning = Callable[[str], AbstractContextManager[None]]


@pytest.fixture(params=["disk", "memory"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """A folder, or none: a store behaves alike."""
    return tmp_path if request.param == "disk" else None


def test_put_then_get(path: Path | None) -> None:
    with BinaryStore.open(path) as store:
        assert store.get("a") is None
        store.put("a", b"one")
        store.put("b", b"")
        store.put("a", b"two")
        store.put("long" * 500, b"three")
        assert store.get("a") == b"two"
        assert store.get("b") == b""
        assert store.get("long" * 500) == b"three"
        assert store.get("long" * 499 + "lang") is None
        assert store.health() == []


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were written, once for each transaction."""
    found: list[str] = []
    write = DatabaseFile.write

    def noted(file: DatabaseFile, work: Any) -> bool:
        found.append(file.path.name)
        return write(file, work)

    monkeypatch.setattr(DatabaseFile, "write", noted)
    return found


def test_several_binaries_are_one_transaction(tmp_path: Path, writes: list[str]) -> None:
    with BinaryStore.open(tmp_path, limit=100_000) as store:
        store.put_all([])
        assert writes == []
        big, small = bytes(200_000), bytes(40_000)
        store.put_all([("big", big), ("a", small), ("b", small + b"1"), ("c", small + b"2")])
        assert writes == [FILE_NAME]
        assert store.get("big") is None, "over the limit"
        assert store.get("a") is None, "evicted within the transaction"
        assert store.get("b") == small + b"1"
        assert store.get("c") == small + b"2"


def _interrupted(store: BinaryStore, key: str, binary: bytes) -> None:
    with Gathered(store) as gathered:
        gathered.put(key, binary)
        raise KeyboardInterrupt


def test_gathered_binaries_are_stored_once_a_second_and_in_the_end(
    path: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with BinaryStore.open(path) as store:
        with Gathered(store) as gathered:
            gathered.put("a", b"one")
            now = 100.9
            gathered.put("b", b"two")
            assert store.get("a") is None
            now = 101.1
            gathered.put("c", b"three")
            assert [store.get(key) for key in "abc"] == [b"one", b"two", b"three"]
            gathered.put("d", b"four")
            assert store.get("d") is None
        assert store.get("d") == b"four"
        with pytest.raises(KeyboardInterrupt):
            _interrupted(store, "e", b"five")
        assert store.get("e") == b"five"


def test_binaries_outlive_the_process(tmp_path: Path, in_child: Callable[..., Any]) -> None:
    binary = random.Random(0).randbytes(300_000)

    def work() -> bool:
        with BinaryStore.open(tmp_path) as store:
            store.put("kernel", binary)
        return True

    assert in_child(work)
    with BinaryStore.open(tmp_path) as store:
        assert store.get("kernel") == binary


def test_the_oldest_are_evicted(path: Path | None) -> None:
    with BinaryStore.open(path, limit=100_000) as store:
        for number in range(30):
            store.put(str(number), bytes([number]) * 10_000)
        kept = [number for number in range(30) if store.get(str(number)) is not None]
        assert kept[-1] == 29
        assert 8 <= len(kept) <= 10
        assert kept == list(range(kept[0], 30))


def test_a_replaced_binary_is_not_evicted_in_the_place_of_the_old_one(tmp_path: Path) -> None:
    with BinaryStore.open(tmp_path, limit=100_000) as store:
        store.put("old", b"x" * 10_000)
        store.put("other", b"x" * 10_000)
        store.put("old", b"y" * 10_000)
        for number in range(8):
            store.put(str(number), b"x" * 10_000)
        assert store.get("old") == b"y" * 10_000
        assert store.get("other") is None


def test_the_file_stays_bounded(tmp_path: Path) -> None:
    numbers = random.Random(0)
    with BinaryStore.open(tmp_path, limit=2_000_000) as store:
        for number in range(600):
            store.put(str(number), numbers.randbytes(numbers.choice([3_000, 30_000, 120_000])))
    assert (tmp_path / FILE_NAME).stat().st_size < 8_000_000


def test_a_binary_over_the_limit_is_not_stored(path: Path | None) -> None:
    with BinaryStore.open(path, limit=1000) as store:
        store.put("small", b"x" * 500)
        store.put("large", b"x" * 2000)
        assert store.get("large") is None
        assert store.get("small") == b"x" * 500


def test_storing_the_same_again_changes_nothing(tmp_path: Path) -> None:
    with BinaryStore.open(tmp_path) as store:
        store.put("a", b"x" * 1000)
        before = (tmp_path / FILE_NAME).read_bytes()
        store.put("a", b"x" * 1000)
        assert (tmp_path / FILE_NAME).read_bytes() == before


def test_a_damaged_binary_is_a_miss_and_is_removed(tmp_path: Path) -> None:
    with BinaryStore.open(tmp_path) as store:
        store.put("a", b"x" * 50_000)

        def spoil(environment: Environment, transaction: Transaction) -> None:
            value = bytearray(transaction.get(b"a", b"", db=environment.table("binary")))
            value[30_000] ^= 1
            transaction.put(b"a", bytes(value), db=environment.table("binary"))

        assert store._file is not None
        assert store._file.write(spoil)
        assert store.get("a") is None
        assert store._file.get("binary", b"a") is None
        store.put("a", b"y")
        assert store.get("a") == b"y"
        assert store.health() == []


def test_a_damaged_file_is_moved_aside(tmp_path: Path, one_warning: OneWarning) -> None:
    (tmp_path / FILE_NAME).write_bytes(os.urandom(100_000))
    store = BinaryStore.open(tmp_path)
    with one_warning("started anew"):
        store.put("a", b"x")
    assert store.get("a") == b"x"
    store.close()
    assert (tmp_path / f"{FILE_NAME}.corrupt-1").stat().st_size == 100_000
