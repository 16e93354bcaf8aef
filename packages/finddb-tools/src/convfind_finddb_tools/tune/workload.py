"""The workload: a model's or log's problems with their occurrences, and the file that stores them.

The file lies beside the database, with one JSON line for each pair of source and problem:

    {"source": "resnet50.txt", "problem": "fwd-64x64x56x56-...", "count": 3, "name": "layer1"}
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from convfind.errors import ProblemError
from convfind.finddb.database import FILE_NAME
from convfind.finddb.database_file import file_in
from convfind.problem import ConvProblem
from convfind.types import Direction

_MOST_NAMES = 100  # of one problem in one source


@dataclass(frozen=True, slots=True)
class Found:
    """A convolution in a source, and how often it stands there."""

    problem: ConvProblem
    count: int = 1
    name: str = ""  # a layer's name, where the source has names


@dataclass(frozen=True, slots=True)
class Refusal:
    """A convolution in a source that convfind has no problem for."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Problems read from one source."""

    source: str
    found: tuple[Found, ...]
    skipped: int = 0  # lines about something else
    refused: tuple[Refusal, ...] = ()


class WorkloadLine(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Number of occurrences of one plain problem in one source."""

    source: str
    problem: str
    count: int
    name: str = ""  # of the layers, where the source has names


@dataclass(frozen=True, slots=True)
class Workload:
    """Distinct plain problems of all sources, in the order in which they were met."""

    problems: tuple[ConvProblem, ...]
    lines: tuple[WorkloadLine, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Return each problem's occurrences in all sources together, by network config."""
        counts: dict[str, int] = {}
        for line in self.lines:
            counts[line.problem] = counts.get(line.problem, 0) + line.count
        return counts


def gather(
    readings: Sequence[Reading],
    directions: Sequence[Direction] = (),
    batch: int | None = None,
) -> Workload:
    """Unite sources, each problem once.

    Args:
        readings: what was read.
        directions: directions in place of the source's own; a convolution that the source has in
            several directions counts as often as its most frequent one.
        batch: batch size in place of the source's.
    """
    problems: dict[str, ConvProblem] = {}
    lines: list[WorkloadLine] = []
    for reading in readings:
        counts: dict[str, int] = {}
        names: dict[str, dict[str, None]] = {}
        for found in _turned(reading.found, directions):
            problem = found.problem if batch is None else found.problem.with_batch(batch)
            plain = problem.plain()
            problems.setdefault(plain.key, plain)
            counts[plain.key] = counts.get(plain.key, 0) + found.count
            if found.name:
                names.setdefault(plain.key, {})[found.name] = None
        lines += (
            WorkloadLine(
                source=reading.source,
                problem=key,
                count=count,
                name=", ".join(list(names.get(key, ()))[:_MOST_NAMES]),
            )
            for key, count in counts.items()
        )
    return Workload(tuple(problems.values()), tuple(lines))


def _turned(found: Iterable[Found], directions: Sequence[Direction]) -> Iterable[Found]:
    """Put convolutions into other directions."""
    if not directions:
        return found
    counts: dict[str, dict[Direction, int]] = {}
    forward: dict[str, Found] = {}
    for one in found:
        problem = one.problem.with_direction(Direction.FORWARD)
        by_direction = counts.setdefault(problem.key, {})
        own = one.problem.direction
        by_direction[own] = by_direction.get(own, 0) + one.count
        forward.setdefault(problem.key, Found(problem, 0, one.name))
    return [
        Found(one.problem.with_direction(direction), max(counts[key].values()), one.name)
        for key, one in forward.items()
        for direction in directions
    ]


def workload_path(database: Path) -> Path:
    """The workload file that belongs to a database, its folder or the file itself."""
    file = file_in(database, FILE_NAME)
    name = "workload.jsonl" if file.name == FILE_NAME else f"{file.stem}.workload.jsonl"
    return file.with_name(name)


def read_workload(path: Path) -> tuple[WorkloadLine, ...]:
    """Read a workload file; nothing where there is none.

    Raises:
        ProblemError: the file cannot be read, or a line is malformed: names file and line.
    """
    if not path.exists():
        return ()
    decoder = msgspec.json.Decoder(WorkloadLine)
    lines = []
    try:
        text = path.read_bytes()
    except OSError as exc:
        raise ProblemError("workload", str(path), f"a readable file ({exc})") from exc
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            lines.append(decoder.decode(line))
        except msgspec.MsgspecError as exc:
            raise ProblemError(f"{path}:{number}", line.decode(errors="replace"), str(exc)) from exc
    return tuple(lines)


def update_workload(path: Path, workload: Workload) -> None:
    """Write what the workload's sources have in place of what the file says about them.

    Raises:
        ProblemError: the file that is there is malformed or cannot be read.
        OSError: it cannot be written.
    """
    sources = {line.source for line in workload.lines}
    kept = [line for line in read_workload(path) if line.source not in sources]
    write_workload(path, (*kept, *workload.lines))


def join_workloads(files: Iterable[Sequence[WorkloadLine]]) -> tuple[WorkloadLine, ...]:
    """Unite the lines of several files; of two about one problem in one source the larger counts.

    The order of the files decides the order of the lines, and nothing else.
    """
    joined: dict[tuple[str, str], WorkloadLine] = {}
    for lines in files:
        for line in lines:
            place = line.source, line.problem
            old = joined.setdefault(place, line)
            joined[place] = max(old, line, key=lambda one: (one.count, one.name))
    return tuple(joined.values())


def write_workload(path: Path, lines: Iterable[WorkloadLine]) -> None:
    """Write a workload file, whole or not at all. Raises `OSError`."""
    encoder = msgspec.json.Encoder()
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(b"".join(encoder.encode(line) + b"\n" for line in lines))
    fresh.replace(path)
