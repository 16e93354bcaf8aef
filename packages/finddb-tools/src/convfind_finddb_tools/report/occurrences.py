"""A model's problems and their numbers of occurrences: JSON Lines, or a layer file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from convfind.errors import ConvfindError, FindDbError, ProblemError
from convfind.problem import ConvProblem
from convfind.problem.text import format_miopen_key, parse_problem, read_layer_file
from convfind.types import Direction
from convfind_finddb_tools.miopen_text import is_find_key

_LARGEST = 64 << 20
_MALFORMED = (msgspec.MsgspecError, ConvfindError, UnicodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A problem of a model.

    Attributes:
        problem: as the file says it.
        names: what it may be called in a database: network config, MIOpen's key.
        count: how often it runs in one pass.
        label: the layer's name, if it has one.
        sources: the networks that have it, each with its number of occurrences there.
        wanted: False where the file names the layer, but not this direction of it.
    """

    problem: str
    names: tuple[str, ...]
    count: int
    label: str = ""
    wanted: bool = True
    sources: tuple[tuple[str, int], ...] = ()


class _Line(msgspec.Struct):
    problem: str
    count: int
    name: str = ""
    source: str = ""
    labels: list[str] = []  # names of all the layers, as `convfind tune` writes them


def read_occurrences(path: Path, batch: int | None = None) -> list[Occurrence]:
    """Read ``{"problem": text, "count": n}`` lines, or a layer file of MIOpenDriver lines.

    The layers of a layer file stand for all directions of which the database has records. A layer
    that occurs on several lines counts as often as all of them together.

    Args:
        path: ``*.jsonl``, else a layer file.
        batch: batch size in place of the file's.

    Raises:
        FindDbError: the file cannot be read, or a line is wrong: names file and line.
        ProblemError: a line of a layer file is wrong.
    """
    found = _json_lines(path, batch) if path.suffix == ".jsonl" else _layers(path, batch)
    united: dict[tuple[str, ...], Occurrence] = {}
    for one in found:
        old = united.get(one.names)
        if old is not None:
            one = Occurrence(
                old.problem,
                old.names,
                old.count + one.count,
                old.label or one.label,
                old.wanted or one.wanted,
                (*old.sources, *one.sources),
            )
        united[one.names] = one
    if not united:
        msg = f"{path} names no problems"
        raise FindDbError(msg)
    return list(united.values())


def _layers(path: Path, batch: int | None) -> list[Occurrence]:
    return [
        _occurrence(
            layer.problem.with_direction(direction),
            batch,
            layer.count,
            layer.comment,
            path.name,
            wanted=direction is layer.problem.direction,
        )
        for layer in read_layer_file(path)
        for direction in Direction
    ]


def _json_lines(path: Path, batch: int | None) -> list[Occurrence]:
    try:
        if path.stat().st_size > _LARGEST:
            msg = f"{path} is larger than {_LARGEST >> 20} MiB: no list of a model's problems"
            raise FindDbError(msg)
        lines = path.read_bytes().splitlines()
    except OSError as exc:
        msg = f"{path} cannot be read: {exc.strerror or exc}"
        raise FindDbError(msg) from exc
    decoder = msgspec.json.Decoder(_Line)
    found: list[Occurrence] = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = decoder.decode(text)
            if line.count < 1:
                raise ProblemError("count", line.count, "at least 1")
            found.append(_read_line(line, batch))
        except _MALFORMED as exc:
            msg = f"{path}:{number}: {exc}"
            raise FindDbError(msg) from exc
    return found


def _read_line(line: _Line, batch: int | None) -> Occurrence:
    try:
        problem = parse_problem(line.problem)[0]
    except ProblemError:
        if batch is not None or not is_find_key(line.problem):
            raise
        sources = ((line.source, line.count),)
        return Occurrence(line.problem, (line.problem,), line.count, _label(line), sources=sources)
    return _occurrence(problem, batch, line.count, _label(line), line.source)


def _label(line: _Line) -> str:
    more = f" and {len(line.labels) - 1} more" if len(line.labels) > 1 else ""
    return line.name or (f"{line.labels[0]}{more}" if line.labels else "")


def _occurrence(
    problem: ConvProblem,
    batch: int | None,
    count: int,
    label: str,
    source: str,
    *,
    wanted: bool = True,
) -> Occurrence:
    plain = (problem if batch is None else problem.with_batch(batch)).plain()
    names = [plain.key]
    with suppress(ProblemError):  # MIOpen has no words for it
        names.append(format_miopen_key(plain))
    return Occurrence(plain.key, tuple(names), count, label, wanted, ((source, count),))
