"""Problems as JSON Lines: a workload file, or lines that other programs write."""

from __future__ import annotations

from pathlib import Path

import msgspec

from convfind.errors import ProblemError
from convfind.problem.text import parse_problem, read_text
from convfind_finddb_tools.tune.workload import Found, Reading


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    problem: str  # a network config, a key of MIOpen's or a driver line
    count: int = 1
    name: str = ""
    source: str = ""  # in workload files


def read_json_problems(path: Path) -> Reading:
    """Read lines such as ``{"problem": "conv -n 16 -c 64 -k 64 -F 1", "count": 3}``.

    Raises:
        ProblemError: the file cannot be read or a line is malformed: names file and line.
    """
    text = read_text(path, "source")
    decoder = msgspec.json.Decoder(_Line)
    found: list[Found] = []
    for number, content in enumerate(text.splitlines(), 1):
        if not content.strip():
            continue
        try:
            line = decoder.decode(content)
            if line.count < 1:
                raise ProblemError("count", line.count, "at least 1")
            found += (
                Found(problem, line.count, line.name) for problem in parse_problem(line.problem)
            )
        except (msgspec.MsgspecError, ProblemError) as exc:
            where = f"{path}:{number}"
            raise ProblemError(where, content, f"a line such as {_EXAMPLE} ({exc})") from exc
    return Reading(path.name, tuple(found))


_EXAMPLE = '{"problem": "conv -n 16 -c 64 -k 64 -F 1", "count": 3}'
