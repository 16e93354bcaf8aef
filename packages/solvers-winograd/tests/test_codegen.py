"""The generated C is up to date, and saves operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from convfind_solvers_winograd.algorithms import TRANSFORMS
from convfind_solvers_winograd.codegen import files, function
from convfind_solvers_winograd.cook_toom import Transform


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_headers_are_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], (
        "run python -m convfind_solvers_winograd.codegen"
    )


#: The rows of smaller ones, and of those that copy values, have nothing in common.
_WITH_COMMON_PARTS = [t for t in TRANSFORMS if t.n > 4 and not t.spread]


@pytest.mark.parametrize("transform", _WITH_COMMON_PARTS, ids=lambda t: t.name)
def test_common_parts_are_computed_once(transform: Transform) -> None:
    dense = sum(sum(value != 0 for value in row) - 1 for row in transform.data)
    text = function("data", transform.data)
    operations = text.count(" + ") + text.count(" - ") + text.count("MULTIPLY_ADD")
    assert operations < 0.8 * dense
