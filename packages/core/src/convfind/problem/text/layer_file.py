"""Layer files: one MIOpenDriver line per layer; ``# xN`` is its number of occurrences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from convfind.errors import ProblemError
from convfind.problem.conv_problem import ConvProblem
from convfind.problem.text.parsing import parse_driver_line
from convfind.problem.text.text_file import read_text

_COMMENT = re.compile(r"(?:^|\s)#\s*(?P<text>.*)")
_COUNT = re.compile(r"x(?P<count>[0-9]{1,6})\b\s*")


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of a network in one direction."""

    problem: ConvProblem
    count: int  # how often the network has it
    comment: str
    line_number: int


def distinct_layers(found: Iterable[tuple[ConvProblem, int, str]]) -> tuple[Layer, ...]:
    """Unite convolutions of a network, each with its number of occurrences and its name or "".

    The names of a layer are its comment.
    """
    counts: dict[ConvProblem, int] = {}
    names: dict[ConvProblem, dict[str, None]] = {}
    for problem, count, name in found:
        counts[problem] = counts.get(problem, 0) + count
        names.setdefault(problem, {})[name] = None
    return tuple(
        Layer(problem, count, ", ".join(filter(None, names[problem])), number)
        for number, (problem, count) in enumerate(counts.items(), 1)
    )


def read_layer_file(path: str | Path) -> tuple[Layer, ...]:
    """Read a layer file; a line that requests several directions gives as many layers.

    Raises:
        ProblemError: the file cannot be read, or has no layers, or a line is wrong: names file
            and line.
    """
    return parse_layers(read_text(Path(path), "layer file"), path)


def parse_layers(text: str, path: str | Path) -> tuple[Layer, ...]:
    """Read the text of a layer file; ``path`` is for errors. See `read_layer_file`."""
    layers: list[Layer] = []
    for line_number, line in enumerate(text.splitlines(), start=1):
        if not line.split("#", 1)[0].strip():
            continue
        try:
            layers += _layers_of(line, line_number)
        except ProblemError as exc:
            raise ProblemError(
                f"{path}:{line_number}: {exc.field}", exc.value, exc.allowed
            ) from exc
    if not layers:
        raise ProblemError("layer file", str(path), "a file with at least one MIOpenDriver line")
    return tuple(layers)


def _layers_of(line: str, line_number: int) -> list[Layer]:
    found = _COMMENT.search(line)
    comment = found["text"].strip() if found else ""
    repeated = _COUNT.match(comment)
    count = int(repeated["count"]) if repeated else 1
    if repeated:
        comment = comment[repeated.end() :]
    if count < 1:
        raise ProblemError("count", count, "at least 1")
    return [Layer(problem, count, comment, line_number) for problem in parse_driver_line(line)]
