"""The convolutions of a source as the layers that ``convfind bench`` takes."""

from __future__ import annotations

from pathlib import Path

from convfind.problem.text import Layer, distinct_layers
from convfind_finddb_tools.tune.sources import read_source


def layers_of(path: Path, batch: int | None) -> tuple[Layer, ...]:
    """Return each distinct convolution of a source with its number of occurrences.

    The names of its layers are the comment. Raises `ProblemError` as `read_source` does.
    """
    found = read_source(path, {}, batch).found
    return distinct_layers((one.problem, one.count, one.name) for one in found)
