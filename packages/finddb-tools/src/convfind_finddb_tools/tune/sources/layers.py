"""The convolutions of a source as the layers that ``convfind bench`` takes."""

from __future__ import annotations

from pathlib import Path

from convfind.problem import ConvProblem
from convfind.problem.text import Layer
from convfind_finddb_tools.tune.sources import read_source


def layers_of(path: Path, batch: int | None) -> tuple[Layer, ...]:
    """Return each distinct convolution of a source with its number of occurrences.

    The names of its layers are the comment. Raises `ProblemError` as `read_source` does.
    """
    counts: dict[ConvProblem, int] = {}
    names: dict[ConvProblem, dict[str, None]] = {}
    for found in read_source(path, {}, batch).found:
        counts[found.problem] = counts.get(found.problem, 0) + found.count
        names.setdefault(found.problem, {})[found.name] = None
    return tuple(
        Layer(problem, count, ", ".join(filter(None, names[problem])), number)
        for number, (problem, count) in enumerate(counts.items(), 1)
    )
