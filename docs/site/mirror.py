"""Pages for the repository's files outside ``docs/`` that documents link to, and links to them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: The folder of the site in which files outside ``docs/`` are shown.
FOLDER = "repository"

_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_FENCE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".py": "python", ".cl": "opencl", ".toml": "toml", ".json": "json", ".h": "c"}
_TABLES = ROOT / "benchmarks/results"


def place(path: Path) -> str | None:
    """Return the site's address of a file of the repository, or None for what it does not show."""
    if path.is_dir():
        return place(path / "README.md") if (path / "README.md").exists() else None
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    if path.is_relative_to(_TABLES):
        return f"benchmarks/{path.parent.name}.md#{path.stem}"
    name = path.relative_to(ROOT).as_posix()
    return f"{FOLDER}/{name}" if path.suffix == ".md" else f"{FOLDER}/{name}.md"


def text(path: Path) -> str:
    """Return the page of a file: the document itself, or a listing of source text."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return content
    language = _LANGUAGES.get(path.suffix, "text")
    return f"# {path.name}\n\n`{path.relative_to(ROOT)}`\n\n~~~~~~{language}\n{content}\n~~~~~~\n"


def targets(path: Path, content: str) -> Iterator[Path]:
    """Yield the existing files of the repository that a document links to."""
    for part in _FENCE.split(content)[::2]:
        for link in _LINK.findall(part):
            if (target := _target(path, link)) is not None:
                yield target


def linked_outside(documents: Iterable[Path]) -> set[Path]:
    """Return the files outside ``docs/``, among documents and what they link to, and so on."""
    waiting = list(documents)
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        path = path / "README.md" if path.is_dir() else path
        if path in seen or not path.is_file() or path.is_relative_to(_TABLES):
            continue
        seen.add(path)
        if path.suffix == ".md":
            waiting += targets(path, path.read_text(encoding="utf-8"))
    return {path for path in seen if not path.is_relative_to(DOCS)}


def relinked(path: Path, content: str, here: str) -> str:
    """Return a document's text with links to the site's pages; ``here`` is its own address."""

    def replace(match: re.Match[str]) -> str:
        link: str = match[1]
        target = _target(path, link)
        if target is None:
            return link
        address = place(target)
        _, _, anchor = link.partition("#")
        if address is None:
            return f"{os.path.relpath('index.md', os.path.dirname(here) or '.')}"
        relative = os.path.relpath(address, os.path.dirname(here) or ".")
        return f"{relative}#{anchor}" if anchor else relative

    return _outside_code(content, lambda part: _LINK.sub(replace, part))


def _outside_code(content: str, change: Callable[[str], str]) -> str:
    parts = _FENCE.split(content)
    # A link's words may be code, so that its brackets lie in two parts: change the whole text with
    # code blocked out, then put the code back.
    code = parts[1::2]
    held = "".join(
        part if number % 2 == 0 else f"\0{number // 2}\0" for number, part in enumerate(parts)
    )
    return re.sub(r"\0(\d+)\0", lambda match: code[int(match[1])], change(held))


def _target(path: Path, link: str) -> Path | None:
    if re.match(r"[a-z]+:|#", link):
        return None
    target = (path.parent / link.partition("#")[0]).resolve()
    return target if target.exists() and target.is_relative_to(ROOT) else None
