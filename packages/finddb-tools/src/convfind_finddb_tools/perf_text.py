"""MIOpen's perf-db text: tuned configs of its solvers, which only those solvers understand.

A record is a line ``key=solver:config;solver:config``. The key has 21 numbers, then layout, data
type and direction, joined by ``x``; a config is any text without ``;``, ``:`` and ``=``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from convfind.problem import ConvProblem
from convfind.problem.text import format_miopen_key

_KEY = r"(?:[0-9]{1,13}+x){21}[A-Zc0-9]{1,8}+x[A-Z0-9]{1,15}+x[FBW]"
_PART = r"[ -9<>-~]++"  # printable, but not what separates parts
_ENTRY = rf"[!-9<>-~]++:{_PART}"
_RECORD = re.compile(rf"^({_KEY})=({_ENTRY}(?:;{_ENTRY})*+)$".encode(), re.MULTILINE | re.ASCII)
_KEY_ONLY = re.compile(_KEY, re.ASCII)


def plain_lines(block: bytes) -> bytes:
    """Whole lines as they are, without carriage returns."""
    return block.replace(b"\r\n", b"\n") if b"\r" in block else block


def perf_records(block: bytes) -> list[tuple[bytes, bytes]]:
    """Keys and values of every well-formed line, all others left out."""
    return _RECORD.findall(block)


def is_perf_record(key: bytes, values: bytes) -> bool:
    """True where both sides of a "=" make a record."""
    return _RECORD.fullmatch(key + b"=" + values) is not None


def is_perf_key(text: str) -> bool:
    """True for the text of a key."""
    return _KEY_ONLY.fullmatch(text) is not None


def perf_fault(record: bytes) -> str | None:
    """Return why a line is no record, None if it is one."""
    if _RECORD.fullmatch(record):
        return None
    key, equals, values = record.decode("ascii", errors="replace").partition("=")
    if not equals:
        return "no '=' after the key"
    if not _KEY_ONLY.fullmatch(key):
        return f"key {key[:60]!r} is not 21 numbers, layout, type and F, B or W, joined by x"
    return f"{values[:60]!r} is not solver:config;solver:config"


def configs(values: bytes) -> Iterator[tuple[str, str]]:
    """Solvers and their entries in a record; of those with one solver the first counts."""
    seen: set[str] = set()
    for entry in values.decode("ascii").split(";"):
        solver = entry.partition(":")[0]
        if solver not in seen:
            seen.add(solver)
            yield solver, entry


def perf_key(problem: ConvProblem) -> str:
    """The key of a problem: read tensor, filter, written channels, batch, geometry, names.

    Raises:
        ProblemError: the key has no place for something that the problem has.
    """
    name = format_miopen_key(problem)  # raises; has the same numbers in another order
    fields = name.partition("_")[0].split("-")
    rank = problem.spatial_rank
    channels, read = fields[0], fields[1 : 1 + rank]
    written, batch = fields[2 + rank], fields[3 + 2 * rank]
    crossed = [fields[1 + rank], *fields[4 + 2 * rank : 7 + 2 * rank]]
    window, *geometry = (
        _depth_last(text.split("x"), without) for text, without in zip(crossed, "1000", strict=True)
    )
    layout, dtype, direction = fields[8 + 2 * rank], fields[-2], fields[-1]
    numbers = (
        *(str(rank), channels, *_depth_last(read, "1"), *window, written, batch),
        *(size for sizes in geometry for size in sizes),
        *("0", str(problem.groups)),
    )
    return "x".join((*numbers, layout, dtype, direction))


def _depth_last(sizes: list[str], without: str) -> list[str]:
    """Height, width and depth of sizes that begin with the depth, or have none."""
    return [*sizes, without] if len(sizes) == 2 else [*sizes[1:], sizes[0]]
