"""Journals: what is noted is found after a kill, and a note that cannot be written is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from convfind.finddb import journal
from convfind.finddb.file_lock import locked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no locks of whole files")


def adopted(database: Path) -> list[bytes]:
    found: list[bytes] = []

    def take(note: bytes) -> bool:
        found.append(note)
        return True

    journal.adopt(database, take)
    return found


def test_a_journal_that_another_process_removes_at_once_takes_no_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "finddb.lmdb"

    def removed(path: Path, flags: int = 0) -> int | None:
        descriptor = locked(path, flags)
        path.unlink()
        return descriptor

    monkeypatch.setattr(journal, "locked", removed)
    one = journal.Journal(database)
    assert not one.append(b"a note")
    monkeypatch.setattr(journal, "locked", locked)
    assert one.append(b"a note")
    one.forget()
    assert adopted(database) == [b"a note"]
    assert not list(tmp_path.iterdir())


def test_notes_behind_one_that_does_not_fit_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, write = journal.Journal(tmp_path / "finddb.lmdb"), os.write
    assert one.append(b"first")
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, contents: write(descriptor, contents[:9]))
        assert not one.append(b"second")
    assert one.append(b"third")
    one.forget()
    assert adopted(tmp_path / "finddb.lmdb") == [b"first", b"third"]
