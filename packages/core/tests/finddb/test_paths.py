"""Databases at paths of every kind: used where they can be, else memory and one warning."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from convfind.device.target import Target
from convfind.finddb import BinaryStore, FindDb, FindEntry
from convfind.finddb.database import FILE_NAME
from convfind.heuristics.installed import installed_models
from convfind.problem import ConvProblem

Problem = Callable[[int], ConvProblem]
Entry = Callable[..., FindEntry]
OneWarning = Callable[[str], AbstractContextManager[None]]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="paths and pipes of POSIX")


def _remembers(folder: Path, target: Target, one: ConvProblem, entry: FindEntry) -> FindDb:
    """Store a record, read it back, and return the open database."""
    db = FindDb.open(folder)
    db.store(target, one, entry)
    assert db.lookup(target, one) is not None
    return db


def test_a_name_need_not_be_text(
    tmp_path: Path, target: Target, problem: Problem, entry: Entry
) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9"))
    _remembers(folder, target, problem(1), entry(a=1.0)).close()
    with FindDb.open(folder) as db, FindDb.open(None, (folder,)) as shipped:
        for layer in (db, shipped):
            assert layer.lookup(target, problem(1)) is not None
            assert layer.health() == []
    with BinaryStore.open(folder) as store:
        store.put("key", b"binary")
    with BinaryStore.open(folder) as store:
        assert store.get("key") == b"binary"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_left_alone(
    tmp_path: Path,
    target: Target,
    problem: Problem,
    entry: Entry,
    one_warning: OneWarning,
    make: Callable[[Path], None],
) -> None:
    make(tmp_path / FILE_NAME)
    before = (tmp_path / FILE_NAME).stat()
    with one_warning("continuing in memory only"):
        _remembers(tmp_path, target, problem(1), entry(a=1.0)).close()
    assert (tmp_path / FILE_NAME).stat().st_ino == before.st_ino
    with one_warning("skipped"), FindDb.open(None, (tmp_path,)) as shipped:
        assert shipped.lookup(target, problem(1)) is None


def test_a_pipe_among_the_models_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    os.mkfifo(tmp_path / "models" / "pipe.npz")
    assert installed_models(tmp_path) == ()


def test_the_home_of_nobody_becomes_no_folder_here(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: Target,
    problem: Problem,
    entry: Entry,
    one_warning: OneWarning,
) -> None:
    monkeypatch.chdir(tmp_path)
    with one_warning("the home folder of nobody"):
        _remembers(Path("~nobody-here/x"), target, problem(1), entry(a=1.0)).close()
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_in_a_folder_that_is_gone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: Target,
    problem: Problem,
    entry: Entry,
    one_warning: OneWarning,
) -> None:
    shipped = tmp_path / "shipped"
    _remembers(shipped, target, problem(2), entry(a=1.0)).close()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with one_warning("continuing in memory only"):
        db = FindDb.open(Path("db"), (shipped,))
        db.store(target, problem(1), entry(a=1.0))
        for number in (1, 2):
            assert db.lookup(target, problem(number)) is not None
        db.close()
