"""A look at the database answers what its layers hold now, whatever was decoded before."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry, FindRecord, StoredEntry
from convfind.finddb.environment import Environment, Transaction
from convfind.finddb.key import database_key
from convfind.finddb.merge import layer_entries
from convfind.finddb.table import FIND
from convfind.problem import ConvProblem
from convfind.testing import MOCK_TARGET

Problem = Callable[[int], ConvProblem]
Entry = Callable[..., FindEntry]

#: Two layers that packages ship, and the user's.
LAYERS = ("upper", "lower", "user")


@st.composite
def entries(draw: st.DrawFn) -> FindEntry:
    """Few solvers, times and sizes, so that records of layers meet."""
    records = draw(
        st.lists(
            st.builds(
                FindRecord,
                solver=st.sampled_from("abc"),
                solver_version=st.integers(1, 2),
                package=st.sampled_from(LAYERS),
                algorithm=st.just("direct"),
                time_ms=st.sampled_from([1.0, 2.0, 3.0]),
                workspace=st.sampled_from([0, 512]),
                config=st.sampled_from([None, {"tile": 4}]),
                constant_weights=st.booleans(),
            ),
            max_size=4,
        )
    )
    considered = draw(st.sets(st.sampled_from(["a@1", "a@2", "b@1", "c@1"])))
    return FindEntry(records=tuple(records), considered=tuple(sorted(considered)))


def decoded_anew(db: FindDb, target: Target, problem: ConvProblem) -> StoredEntry | None:
    """What the layers hold, each read and decoded by itself, united."""
    user, *shipped = (entry for _, entry in db.layers(target, problem))
    return layer_entries(user, [entry for entry in shipped if entry is not None])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(LAYERS), st.integers(1, 2), entries(), st.booleans()),
        max_size=8,
    ),
    st.booleans(),
)
def test_a_look_is_what_the_layers_hold(
    changes: list[tuple[str, int, FindEntry, bool]], on_disk: bool
) -> None:
    problems = {n: ConvProblem.forward((n, 8, 14, 14), (16, 8, 3, 3)) for n in (1, 2)}
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        shipped = [stack.enter_context(FindDb.open(folder / name)) for name in LAYERS[:2]]
        for layer in shipped:
            layer.health()  # opens the file, for writing
        user = folder / "user" if on_disk else None
        db = stack.enter_context(FindDb.open(user, [folder / name for name in LAYERS[:2]]))
        by_name = dict(zip(LAYERS, [*shipped, db], strict=True))
        for name, which, entry, replace in changes:
            by_name[name].store(MOCK_TARGET, problems[which], entry, replace=replace)
            by_name[name].health()  # on a slow disk a thread stores, and this waits for it
            for problem in problems.values():
                found = db.lookup(MOCK_TARGET, problem)
                assert found == decoded_anew(db, MOCK_TARGET, problem)
                assert db.lookup(MOCK_TARGET, problem) == found
        db.remove(MOCK_TARGET, problems[1])
        found = db.lookup(MOCK_TARGET, problems[1])
        assert found == decoded_anew(db, MOCK_TARGET, problems[1])


def test_a_second_look_decodes_nothing(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0))
        found = db.lookup(target, problem(1))
        assert found is not None
        assert db.lookup(target, problem(1)) is found


def test_the_next_look_sees_what_another_process_did(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    in_child: Callable[[Callable[[], Any]], Any],
) -> None:
    one = problem(1)

    def ids(db: FindDb) -> list[str]:
        found = db.lookup(target, one)
        return [] if found is None else [record.solver for record in found.entry.records]

    def store() -> None:
        with FindDb.open(tmp_path / "user") as mine, FindDb.open(tmp_path / "system") as shipped:
            mine.store(target, one, entry(theirs=1.0))
            shipped.store(target, one, entry(new=3.0))

    def remove() -> None:
        with FindDb.open(tmp_path / "user") as mine:
            mine.remove(target, one)

    with FindDb.open(tmp_path / "system") as shipped:
        shipped.store(target, one, entry(old=4.0))
    with FindDb.open(tmp_path / "user", [tmp_path / "system"]) as db:
        db.store(target, one, entry(ours=2.0))
        assert ids(db) == ["ours", "old"]
        in_child(store)
        assert ids(db) == ["theirs", "ours", "new", "old"]
        in_child(remove)
        assert ids(db) == ["new", "old"]


def test_what_was_damaged_after_a_look_is_a_miss(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    key = database_key(target, problem(1))

    def spoil(environment: Environment, transaction: Transaction) -> None:
        handle = environment.table(FIND.name)
        value = bytearray(transaction.get(key, b"", db=handle))
        value[-5] ^= 1
        transaction.put(key, bytes(value), db=handle)

    with FindDb.open(tmp_path) as db:
        db.store(target, problem(1), entry(a=1.0))
        db.health()  # on a slow disk a thread stores, and this waits for it
        assert db.lookup(target, problem(1)) is not None
        assert db._user.file is not None
        assert db._user.file.write(spoil)
        assert db.lookup(target, problem(1)) is None
