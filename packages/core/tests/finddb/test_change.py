"""Changes of a file whose keys damage has put out of order: what was stored is what is found."""

from __future__ import annotations

import random
import struct
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from convfind.device.target import Target
from convfind.finddb import BinaryStore, FindDb, FindDbWarning, FindEntry
from convfind.finddb.database import FILE_NAME, LAYOUT
from convfind.finddb.database_file import DatabaseFile
from convfind.finddb.environment import Environment, Transaction
from convfind.problem import ConvProblem

Problem = Callable[[int], ConvProblem]
Entry = Callable[..., FindEntry]

pytestmark = pytest.mark.slow

COUNT = 300  # problems in `filled`

# Of LMDB's pages: the size of their head, and the flags of branches and leaves.
_HEAD, _BRANCH, _LEAF = 16, 1, 2


@pytest.mark.parametrize("kind", [_LEAF, _BRANCH], ids=["leaves", "branches"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_stored_is_found_though_keys_are_out_of_order(
    filled: Path, target: Target, problem: Problem, entry: Entry, kind: int, seed: int
) -> None:
    shuffle(filled, kind, seed)
    with warnings.catch_warnings(record=True) as caught, FindDb.open(filled.parent) as db:
        warnings.simplefilter("always")
        for batch in range(1, COUNT + 1):
            db.store(target, problem(batch), entry(d=0.5))
            found = db.lookup(target, problem(batch))
            assert found is not None, batch
            assert found.entry.records[0].solver == "d"
    assert kind != _LEAF or "keys of find are out of order" in str(caught[0].message)
    with FindDb.open(filled.parent) as db:
        assert db.lookup(target, problem(COUNT)) is not None
        assert db.health() == []


@pytest.mark.parametrize("kind", [_LEAF, _BRANCH], ids=["leaves", "branches"])
def test_what_is_removed_does_not_come_back_though_keys_are_out_of_order(
    filled: Path, target: Target, problem: Problem, kind: int
) -> None:
    shuffle(filled, kind, 0)
    with warnings.catch_warnings(), FindDb.open(filled.parent) as db:
        warnings.simplefilter("ignore", FindDbWarning)
        for batch in range(1, COUNT + 1):
            db.remove(target, problem(batch))
            assert db.lookup(target, problem(batch)) is None


def test_a_binary_is_found_though_keys_are_out_of_order(tmp_path: Path) -> None:
    names = [f"1|{number:03}" for number in range(COUNT)]
    with BinaryStore.open(tmp_path) as store:
        for name in names:
            store.put(name, name.encode() * 9)
    shuffle(tmp_path / "binaries.lmdb", _LEAF, 0)
    with warnings.catch_warnings(), BinaryStore.open(tmp_path) as store:
        warnings.simplefilter("ignore", FindDbWarning)
        for name in names:
            store.put(name, b"new")
            assert store.get(name) == b"new"


class Overwritten(DatabaseFile):
    """A file in which other pages are written over those that were written just now."""

    def write(self, work: Callable[[Environment, Transaction], None]) -> bool:
        """Run a change, of which nothing is left."""

        def lose(environment: Environment, transaction: Transaction) -> None:
            handle = environment.table("find")
            assert handle is not None
            transaction.drop(handle, delete=False)

        return super().write(work) and super().write(lose)


def test_what_is_stored_is_found_though_its_page_is_written_over(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    file = Overwritten(tmp_path / FILE_NAME, LAYOUT, writable=True)
    with FindDb(file, []) as db:
        for solver in ("a", "b"):
            db.store(target, problem(1), entry(**{solver: 1.0}))
        found = db.lookup(target, problem(1))
        assert found is not None
        assert [record.solver for record in found.entry.records] == ["a", "b"]


def shuffle(file: Path, kind: int, seed: int) -> None:
    """Put the problems' keys in all pages of a kind out of order; each of them stays whole."""
    content, numbers = bytearray(file.read_bytes()), random.Random(seed)
    for page in range(2 * 4096, len(content), 4096):
        flags, lower = struct.unpack_from("=HH", content, page + 10)
        if flags != kind or not _HEAD + 2 < lower <= 4096:
            continue
        nodes = list(struct.unpack_from(f"={(lower - _HEAD) // 2}H", content, page + _HEAD))
        if content[page + nodes[-1] + 8 :].startswith(b"1|"):
            numbers.shuffle(nodes)
            struct.pack_into(f"={len(nodes)}H", content, page + _HEAD, *nodes)
    file.write_bytes(content)
