"""Representatives: problems tuned in full, whose records seed the tuning of similar ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from convfind.finddb.record import FindEntry
from convfind.problem import ConvProblem
from convfind_finddb_tools.tune.order import Seed

#: Problems are neighbours where batch, channels and image differ by no more than this factor each.
REACH = 2.0
#: Configs within this factor of the best on a neighbour are worth measuring.
_CLOSE = 1.25


def representatives(problems: Sequence[ConvProblem]) -> dict[str, str]:
    """Choose for each problem its representative, by network config; some represent themselves.

    Problems of one class (direction, types, layouts, filter, stride, dilation, kind of groups) are
    covered greedily in the order given, so that a problem that matters more stands for others.
    """
    chosen: dict[tuple[object, ...], list[tuple[ConvProblem, tuple[float, ...]]]] = {}
    result: dict[str, str] = {}
    for problem in problems:
        place = _place(problem)
        peers = chosen.setdefault(_class(problem), [])
        near = [peer for peer in peers if not _far(peer[1], place)]
        if near:
            result[problem.key] = min(near, key=lambda peer: math.dist(peer[1], place))[0].key
        else:
            peers.append((problem, place))
            result[problem.key] = problem.key
    return result


def seed_from(entry: FindEntry | None) -> Seed | None:
    """Return what is worth measuring on a neighbour of a tuned problem; None: unknown."""
    records = entry.records if entry is not None else ()
    best = min((record.time_ms for record in records), default=None)
    if best is None:
        return None
    close = [record for record in records if record.time_ms <= _CLOSE * best]
    configs = {record.solver: record.config for record in close if record.config is not None}
    return Seed(tuple(dict.fromkeys(record.solver for record in close)), configs)


def by_weight(problems: Iterable[ConvProblem], counts: dict[str, int]) -> list[ConvProblem]:
    """Sort problems by their share of the work, the largest first."""
    return sorted(problems, key=lambda one: (-one.flops * counts.get(one.key, 1), one.key))


def _class(problem: ConvProblem) -> tuple[object, ...]:
    if problem.groups == 1:
        kind = "dense"
    else:
        kind = "depthwise" if problem.groups == problem.x_shape[1] else "grouped"
    return (
        *(problem.direction, problem.dtype, problem.y_dtype),
        *(problem.x_layout, problem.w_layout, problem.y_layout),
        *(problem.filter, problem.stride, problem.dilation, kind, problem.is_packed),
        *(problem.deterministic, problem.allow_tf32, problem.accuracy),
    )


def _place(problem: ConvProblem) -> tuple[float, ...]:
    batch, channels, *image = problem.x_shape
    sizes = (batch, channels, problem.y_shape[1], *image)
    return tuple(math.log2(max(size, 1)) for size in sizes)


def _far(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    reach = math.log2(REACH) + 1e-9
    return any(abs(a - b) > reach for a, b in zip(one, other, strict=True))
