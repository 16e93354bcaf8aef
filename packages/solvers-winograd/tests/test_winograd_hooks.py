"""The package registers its solvers without loading anything else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from convfind.plugins.registry import Registry
from convfind_solvers_winograd import hooks
from convfind_solvers_winograd.solver_list import solvers


def test_the_hook_registers_the_list() -> None:
    registry = Registry.build([hooks], load_entry_points=False)
    assert not registry.failures
    assert [s.solver_id for s in registry.solvers] == [s.solver_id for s in solvers()]
    assert {"winograd-f6x3-cpu-nchw-fwd", "winograd-f4x3-cpu-nhwc-bwd-data-inline"} <= {
        s.solver_id for s in solvers()
    }


def test_shipped_databases_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "__file__", str(tmp_path / "hooks.py"))
    assert Registry.build([hooks], load_entry_points=False).system_databases() == ()
    (tmp_path / "databases").mkdir()
    packs = [tmp_path / "databases" / name for name in ("h200.lmdb", "zen5.lmdb", "notes.txt")]
    for path in packs:
        path.touch()
    registry = Registry.build([hooks], load_entry_points=False)
    assert not registry.failures
    assert registry.system_databases() == tuple(packs[:2])


def test_importing_the_hooks_is_light() -> None:
    code = (
        "import sys, convfind_solvers_winograd.hooks; "
        "print(sorted({'convfind_solvers_winograd.cpu', 'pyopencl'} & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert loaded == "[]"
