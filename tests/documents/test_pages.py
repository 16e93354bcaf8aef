"""Pages that teach are executed: Python as one program a page, and the commands of tutorials."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TEACHING = ("start", "how-to", "tutorials")
PAGES = sorted(
    path.relative_to(DOCS).as_posix() for folder in TEACHING for path in DOCS.glob(f"{folder}/*.md")
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Commands that change the installation; the tests have one.
_INSTALLS = re.compile(r"^python -m (pip|venv)")


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [code for name, code in _FENCE.findall(text) if name == language]


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
WITH_COMMANDS = [page for page in PAGES if page.startswith("tutorials/") and blocks(page, "")]


def need(names: set[str]) -> None:
    for name in sorted(names):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: str) -> None:
    program = "\n".join(blocks(page, "python"))
    tree = ast.parse(program)
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    if "torch" in imported:
        imported.add("convfind_torch")
    need(imported)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_the_commands_of_a_tutorial_succeed_one_after_the_other(page: str) -> None:
    script = "\n".join(
        line
        for block in blocks(page, "")
        for line in block.splitlines()
        if not _INSTALLS.match(line)
    )
    commands = set(re.findall(r"^convfind (\w+)", script, re.MULTILINE))
    if commands & {"db", "tune", "report"}:
        need({"convfind_finddb_tools"})
    if "example" in page or "first-solver" in page:
        need({"convfind_example_solver"})
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr
