"""Writes the tree of ARCHITECTURE.md from the first sentence of each module's docstring.

``python docs/architecture_tree.py`` brings the page up to date; a test holds that it is.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"

_FENCE = re.compile(r"(?<=\n## The tree\n\n)```text\n.*?\n```", re.DOTALL)
_INDENT = "  "
_COLUMN = 34
_WIDTH = 130
#: Folders and files that are no modules, in words; a folder that is named here is not opened.
_NOTES = {
    "packages": "the distributions",
    "examples": "plugins of a third party, complete",
    "tests": "what crosses packages, and the tree itself",
    "benchmarks": "what was measured, with its command, and the programs that measure",
    "docs": "one page a topic; decisions in adr/",
    "pyproject.toml": "settings of all tools; no distribution",
    "tox.ini": "the test matrix",
}


def tree() -> str:
    """Return the tree as text."""
    lines = [_line(0, "packages/", _NOTES["packages"])]
    for distribution in sorted((ROOT / "packages").iterdir()):
        for package in sorted(distribution.glob("src/*/__init__.py")):
            lines.append(_line(1, f"{distribution.name}/", sentence(package)))
            lines.extend(_folder(package.parent, 2))
    lines += [
        _line(0, name + ("/" if (ROOT / name).is_dir() else ""), note)
        for name, note in _NOTES.items()
        if name != "packages"
    ]
    return "\n".join(lines)


def _folder(folder: Path, depth: int) -> Iterator[str]:
    """Yield the lines of what a package holds: modules first, then rooms."""
    modules = (p for p in folder.glob("*.py") if p.name not in ("__init__.py", "__main__.py"))
    for module in sorted(modules):
        yield _line(depth, module.name, sentence(module))
    for room in sorted(p for p in folder.iterdir() if p.is_dir()):
        if (room / "__init__.py").exists():
            yield _line(depth, f"{room.name}/", sentence(room / "__init__.py"))
            yield from _folder(room, depth + 1)


def sentence(module: Path) -> str:
    """Return the first sentence of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[\w`)\"])\.(?= |$)", first)[0]


def _line(depth: int, name: str, note: str) -> str:
    begin = f"{_INDENT * depth}{name}".ljust(_COLUMN)
    return begin + textwrap.shorten(note, _WIDTH - len(begin), placeholder=" ...")


def updated(page: str) -> str:
    """Return the page with today's tree."""
    return _FENCE.sub(lambda _: f"```text\n{tree()}\n```", page)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
