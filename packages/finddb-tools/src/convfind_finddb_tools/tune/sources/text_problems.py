"""Problems as text: logs with MIOpenDriver's commands, layer files, lists of keys."""

from __future__ import annotations

import re
from pathlib import Path

from convfind.errors import ProblemError
from convfind.problem.text import (
    is_driver_line,
    parse_key,
    parse_layers,
    parse_problem,
    read_text,
)
from convfind_finddb_tools.tune.workload import Found, Reading, Refusal

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_COMMAND = re.compile(
    r"MIOpenDriver(?:\.exe)?[\"']?\s+(?P<command>(?:conv|CBAInfer)\S*\s[^\"'|;&>]*)"
)


def read_text_problems(path: Path) -> Reading:
    """Read a text file, told by its content.

    A file that names MIOpenDriver is a log: what else is in it is skipped and counted, and commands
    that convfind has no problem for are listed. A file that begins with ``conv`` is a layer file,
    any other a list of keys, of which those that convfind has no problem for are listed.

    Raises:
        ProblemError: the file cannot be read, or a line of a layer file or list is malformed: names
            file and line.
    """
    text = read_text(path, "source", errors="replace")
    lines = [_COLOUR.sub("", line).strip() for line in text.splitlines()]
    if any(map(_COMMAND.search, lines)):
        return _read_log(path.name, lines)
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if is_driver_line(first):
        layers = parse_layers(text, path)
        found = (Found(layer.problem, layer.count, layer.comment) for layer in layers)
        return Reading(path.name, tuple(found))
    return _read_keys(path, lines)


def _read_log(name: str, lines: list[str]) -> Reading:
    found: list[Found] = []
    refused: list[Refusal] = []
    skipped = 0
    for number, line in enumerate(lines, 1):
        command = _COMMAND.search(line)
        if command is None:
            skipped += bool(line)
            continue
        try:
            found += (Found(problem) for problem in parse_problem(command["command"]))
        except ProblemError as exc:
            refused.append(Refusal(f"line {number}", str(exc)))
    return Reading(name, tuple(found), skipped, tuple(refused))


def _read_keys(path: Path, lines: list[str]) -> Reading:
    found: list[Found] = []
    refused: list[Refusal] = []
    for number, line in enumerate(lines, 1):
        key = line.partition("#")[0].partition("=")[0].strip()  # a find-db has results behind "="
        if not key:
            continue
        try:
            found.append(Found(parse_key(key)))
        except ProblemError as exc:
            if exc.field == "key":  # no key at all
                raise ProblemError(f"{path}:{number}", exc.value, exc.allowed) from exc
            refused.append(Refusal(f"line {number}", str(exc)))
    return Reading(path.name, tuple(found), refused=tuple(refused))
