"""Commands that documents show exist, with the options that they are shown with."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from convfind.cli import build_program
from convfind.plugins.registry import default_registry

ROOT = Path(__file__).parents[2]


def _documents() -> Iterator[Path]:
    """Yield documents; folders of tools, which make and remove some meanwhile, are not entered."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [one for one in folders if one[0] != "." and one not in ("venv", "build")]
        yield from (Path(folder, name) for name in names if name.endswith(".md"))


DOCUMENTS = sorted(
    path
    for path in _documents()
    if path.name not in ("CHANGELOG.md", "NOTES.md")  # which tell what was, too
)
_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(convfind [^`\n]+)`")
#: Whose commands a document may name.
_PACKAGES = ("convfind_finddb_tools", "convfind_networks")


def shown(text: str) -> Iterator[str]:
    """Yield the commands of a document."""
    for block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r"\s*(?:[A-Z_]+=\S+ |taskset \S+ \S+ |\$ )*convfind [a-z-]", line):
                yield line[line.index("convfind ") :]
    yield from _INLINE.findall(_FENCE.sub("", text))


def fault(command: click.Command, text: str) -> str:
    """Return what is wrong with a shown command, or nothing."""
    words = _words(text)[1:]
    context = click.Context(command, info_name="convfind")
    known = _options(command, context)
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z-]+", words[0]):
        name = words.pop(0)
        if name.startswith("-"):
            words.insert(0, name)
            break
        below = command.get_command(context, name)
        if below is None:
            return f"`{text}`: there is no {name}"
        command = below
        context = click.Context(command, parent=context, info_name=name)
        known |= _options(command, context)
    given = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
    return f"`{text}`: {', '.join(sorted(given - known))}" if given - known else ""


def _options(command: click.Command, context: click.Context) -> set[str]:
    return {
        option
        for parameter in command.get_params(context)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }


def _words(text: str) -> list[str]:
    text = re.split(r"\s[|>]\s|\s>> | && ", text)[0]
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quotation that goes on in the next line
        return text.split()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_exist(document: Path) -> None:
    for name in _PACKAGES:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    program = build_program(default_registry())
    found = [fault(program, text) for text in shown(document.read_text(encoding="utf-8"))]
    assert not list(filter(None, found))
