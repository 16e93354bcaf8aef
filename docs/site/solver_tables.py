"""The table of a family's solvers, read from their ids and domains."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

_VARIANTS = (("nchw", "nhwc"), ("fwd", "bwd-data", "bwd-weights"))
_DIRECTIONS = {"forward": "forward", "backward-data": "data", "backward-weights": "weights"}


def table(package: str) -> str:
    """Return the solvers of a package as Markdown: ids that differ by a variant share a row."""
    solvers = importlib.import_module(f"{package}.solver_list").solvers()
    groups: dict[tuple[str, str, str, str], list[Any]] = defaultdict(list)
    for solver in solvers:
        domain = solver.domain
        groups[
            _pattern(solver.solver_id),
            ", ".join(kind.value for kind in domain.kinds),
            ", ".join(dtype.value for dtype in domain.dtypes),
            _needs(solver),
        ].append(solver)
    lines = ["| solver | directions | devices | element types | needs |", "|---|---|---|---|---|"]
    for (pattern, kinds, dtypes, needs), members in groups.items():
        directions = dict.fromkeys(
            _DIRECTIONS[direction.value]
            for solver in members
            for direction in solver.domain.directions
        )
        lines.append(
            f"| {pattern}{_count(members)} | {', '.join(directions)} | {kinds} | {dtypes} "
            f"| {needs} |"
        )
    return "\n".join([f"{len(solvers)} solvers:", "", *lines])


def _pattern(solver_id: str) -> str:
    """Return an id with its layout and direction replaced by placeholders."""
    name = solver_id
    for words, placeholder in zip(_VARIANTS, ("<layout>", "<direction>"), strict=True):
        name = re.sub(
            rf"-(?:{'|'.join(sorted(words, reverse=True))})(?=-|$)", f"-{placeholder}", name
        )
    return f"`{name}`"


def _count(members: Sequence[Any]) -> str:
    return f" ({len(members)})" if len(members) > 1 else ""


def _needs(solver: Any) -> str:
    words = [*solver.backends, *sorted(solver.domain.features)]
    return ", ".join(f"`{word}`" for word in words)
