"""Each program of the gallery runs, and checks its own result."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "examples/programs").glob("*.py"))
#: What a program needs without importing it.
BESIDE = {
    "pytorch_inference": {"convfind_torch"},
    "pack_in_a_wheel": {"convfind_finddb_tools"},
}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_program_runs(program: Path, tmp_path: Path) -> None:
    imports = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(program.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    for name in imports | BESIDE.get(program.stem, set()):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_gallery_shows_the_program(program: Path) -> None:
    page = (ROOT / "docs/tutorials/examples.md").read_text()
    assert f"(../../examples/programs/{program.name})" in page
