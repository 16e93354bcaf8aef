"""The records that packages ship are of the solvers that they ship."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from convfind.finddb import FindDb
from convfind.plugins.registry import default_registry

PACKS = default_registry().system_databases()


def test_every_family_ships_records() -> None:
    assert {path.parents[1].name for path in PACKS} >= {
        "convfind_backend_opencl",
        "convfind_solvers_direct",
        "convfind_solvers_fft",
        "convfind_solvers_igemm",
        "convfind_solvers_winograd",
    }


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: f"{pack.parents[1].name}-{pack.stem}")
def test_records_are_of_the_present_solvers(pack: Path, tmp_path: Path) -> None:
    registry = default_registry()
    shutil.copy(pack, tmp_path / "finddb.lmdb")
    (tmp_path / "finddb.lmdb").chmod(0o600)  # packs are read-only
    with FindDb.open(tmp_path) as database:
        entries = dict(database.entries())
        assert not database.health()
    assert entries
    for key, entry in entries.items():
        for record in entry.records:
            solver = registry.find_solver(record.solver)
            assert solver is not None, key
            assert record.solver_version == solver.version, f"{record.solver}: measure again"
            assert record.algorithm == solver.algorithm, key
