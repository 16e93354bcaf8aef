"""A family's hooks register its list of solvers, and name the databases that it ships."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from convfind.plugins.registry import Registry

FILES = {
    "__init__.py": "",
    "hooks.py": (
        "from convfind.plugins.family import family_hooks\n"
        'convfind_register_solvers, convfind_system_databases = family_hooks("made_family")\n'
    ),
    "solver_list.py": "from convfind.testing import mock_solvers as solvers\n",
}


def test_a_family_says_its_hooks_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "made_family"
    (package / "databases").mkdir(parents=True)
    for name, text in FILES.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    hooks = import_module("made_family.hooks")
    assert "made_family.solver_list" not in sys.modules
    assert Registry.build([hooks], load_entry_points=False).system_databases() == ()
    packs = [package / "databases" / name for name in ("h200.lmdb", "zen5.lmdb", "notes.txt")]
    for path in packs:
        path.touch()
    registry = Registry.build([hooks], load_entry_points=False)
    assert not registry.failures
    assert [solver.solver_id for solver in registry.solvers][:2] == ["mock-wrong", "mock-broken"]
    assert registry.system_databases() == tuple(packs[:2])
    for name in [name for name in sys.modules if name.partition(".")[0] == "made_family"]:
        monkeypatch.delitem(sys.modules, name)
