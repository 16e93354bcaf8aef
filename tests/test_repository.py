"""The tree itself: file sizes, docstrings, nothing that only makes sense on one machine."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = {".py", ".cl", ".h", ".hip"}
TEXT = CODE | {".md", ".toml", ".ini", ".txt", ".yaml", ".cfg", ""}
GENERATED = {"__pycache__", "build", "dist", "venv", ".git"}  # in a worktree .git is a file
LARGEST = 600

HOST = r"(?:pypi\.org|pythonhosted\.org|debian\.org|npmjs\.(?:com|org)|anaconda\.org)"
MACHINE = r"(?<![\w.])/(?:work|root)/"


@cache
def files() -> tuple[Path, ...]:
    """The files of the project; hidden folders belong to tools, except the CI script's."""
    found: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        # Not even looked into: environments have more files than all else together.
        folders[:] = [
            name
            for name in folders
            if (name == ".ci" or not name.startswith(".")) and name not in GENERATED
        ]
        # In a worktree ``.git`` is a file.
        found += (Path(folder, name) for name in names if name not in GENERATED)
    return tuple(found)


@cache
def texts() -> tuple[tuple[Path, str], ...]:
    """Path and contents of the text files, this one excepted: it holds the patterns."""
    return tuple(
        (path, path.read_text(encoding="utf-8"))
        for path in files()
        if path.suffix in TEXT and path != Path(__file__)
    )


def found(pattern: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path, text in texts()
        for match in re.finditer(pattern, text)
    ]


def test_no_code_file_is_too_long() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {count}"
        for path in files()
        if path.suffix in CODE
        and (count := len(path.read_text(encoding="utf-8").splitlines())) > LARGEST
    ]
    assert not long


def test_every_module_says_what_it_owns() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in files()
        if path.suffix == ".py" and not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert not silent


def test_no_path_of_one_machine() -> None:
    assert not found(MACHINE)


def test_no_address_of_a_registry() -> None:
    assert not found(HOST)


def test_no_lock_file() -> None:
    assert not [path for path in files() if path.name in {"uv.lock", "poetry.lock", "pdm.lock"}]


def test_no_promise_in_a_comment() -> None:
    words = r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b"
    assert not found(words)


def test_no_sentence_of_code_begins_with_a_word_that_hides_its_noun() -> None:
    begins = re.compile(
        r"""(?:^\s*#:? |"{3}|[.:] )(?:Of |What |That which )(?![^.]*\?)""", re.MULTILINE
    )
    wrong = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in texts()
        if path.suffix == ".py" and "src" in path.parts
        for match in begins.finditer(text)
    ]
    assert not wrong


def test_tox_runs_the_slow_tests_that_pytest_leaves_out() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["pytest"]["ini_options"]["addopts"][-2:] == ["-m", "not slow"]
    tox = configparser.RawConfigParser()
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    set_for_tests = dict(
        line.split(" = ", 1) for line in tox["testenv"]["set_env"].split("\n") if " = " in line
    )
    assert shlex.split(set_for_tests["PYTEST_ADDOPTS"])[-2:] == ["-m", ""]
    overriding = [name for name in tox.sections() if "set_env" in tox[name] and ":" in name]
    assert not [name for name in overriding if "pytest" in tox[name].get("commands", "")]


def module_name(source: Path, path: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, modules: Set[str]) -> Iterator[str]:
    """Modules that are imported when code runs, functions included; types alone do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inner
            if not inner <= modules:
                yield node.module
        yield from imports(node, modules)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Modules that reach each other, by their smallest sets."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        found, open_ends = set[str](), [start]
        while open_ends:
            new = graph[open_ends.pop()] - found
            found |= new
            open_ends += new
        reached[start] = found
    together = {
        frozenset(other for other in found if start in reached[other])
        for start, found in reached.items()
        if start in found
    }
    return [set(circle) for circle in together]


def test_modules_import_each_other_in_no_circles() -> None:
    trees = {
        module_name(source, path): ast.parse(path.read_text("utf-8"))
        for source in (*ROOT.glob("packages/*/src"), *ROOT.glob("examples/*/src"))
        for path in source.rglob("*.py")
    }
    graph = {
        name: {other for other in imports(tree, trees.keys()) if other in trees and other != name}
        for name, tree in trees.items()
    }
    assert not circles(graph)


def test_the_solvers_that_need_no_child_are_those_of_this_projects_packages() -> None:
    hooks = ROOT.glob("packages/*/src/*/hooks.py")
    brings = [path for path in hooks if "convfind_register_solvers" in path.read_text()]
    names = {path.parent.name.replace("_", "-") for path in brings} | {"convfind"}
    choice = ROOT / "packages/core/src/convfind/find/isolation/choice.py"
    (listed,) = re.findall(r"_OWN = frozenset\(\s*\{([^}]*)\}", choice.read_text())
    assert set(re.findall(r'"([^"]+)"', listed)) == names
