"""Installed packs: which files finds lay under the user's database, and in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from convfind.device.target import DeviceKind, Target
from convfind.finddb import FindDb, FindDbWarning, FindEntry, FindRecord
from convfind.finddb.packs import installed_packs, pack_prefix, packs_folder
from convfind.problem import ConvProblem

TARGET = Target(
    backend="mock",
    name="A Device",
    kind=DeviceKind.CPU,
    vendor="Test",
    platform="Test (CL)",
    arch="test-1",
    compute_units=8,
    driver="driver 1",
)
PROBLEM = ConvProblem.forward((2, 4, 6, 6), (4, 4, 3, 3))


def entry(solver: str, time_ms: float) -> FindEntry:
    record = FindRecord(
        solver=solver, solver_version=1, package="p", algorithm="direct", time_ms=time_ms
    )
    return FindEntry(records=(record,))


def test_the_latest_installed_comes_first(tmp_path: Path) -> None:
    assert installed_packs(tmp_path) == ()
    folder = packs_folder(tmp_path)
    folder.mkdir()
    prefix = pack_prefix(TARGET.identity)
    assert prefix == "mock-Test-CL-A-Device-test-1-8@"
    for age, name in enumerate((f"{prefix}b.lmdb", f"{prefix}a.lmdb", "other@c.lmdb", "x.txt")):
        (folder / name).touch()
        os.utime(folder / name, (100 - age, 100 - age))
    mine = [folder / f"{prefix}b.lmdb", folder / f"{prefix}a.lmdb"]
    assert installed_packs(tmp_path, TARGET.identity) == tuple(mine)
    assert installed_packs(tmp_path) == (*mine, folder / "other@c.lmdb")
    assert installed_packs(tmp_path / "finddb.lmdb") == installed_packs(tmp_path)


def test_a_file_in_place_of_the_folder_is_no_error(tmp_path: Path) -> None:
    packs_folder(tmp_path).touch()
    assert installed_packs(tmp_path) == ()


def test_layers_are_told_apart(tmp_path: Path) -> None:
    for name, found in (("user", entry("a", 2.0)), ("pack", entry("a", 1.0))):
        with FindDb.open(tmp_path / name) as database:
            database.store(TARGET, PROBLEM, found)
    with FindDb.open(tmp_path / "user", [tmp_path / "pack", tmp_path / "none"]) as database:
        with pytest.warns(FindDbWarning, match="skipped"):
            layers = database.layers(TARGET, PROBLEM)
        stored = database.lookup(TARGET, PROBLEM)
    paths = [path.parent.name for path, _ in layers if path is not None]
    assert paths == ["user", "pack", "none"]
    times = [None if found is None else found.records[0].time_ms for _, found in layers]
    assert times == [2.0, 1.0, None]
    assert stored is not None
    assert [record.time_ms for record in stored.entry.records] == [2.0]
    with FindDb.open(None) as database:
        assert database.layers(TARGET, PROBLEM) == ((None, None),)
