"""Results of finds as values: for programs, terminals, notebooks and files."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rich.console

from convfind import FindResult, Solution, TimeOrigin
from convfind.problem import ConvProblem

SAVED = """{
  "convfind_solution": 1, "solver": "mock-dynamic", "algorithm": "direct", "problem": "p",
  "device": "mock", "time_ms": %s, "time_origin": "%s", "workspace": 8
}"""


@pytest.fixture
def found(bench: Any, problem: ConvProblem) -> FindResult:
    """Measured solutions and refusals."""
    return bench.open().find(problem, "NORMAL", workspace_limit=10)  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", ["NORMAL", "FAST"])
def test_a_dict_survives_json_and_has_negative_times_where_nobody_measured(
    bench: Any, problem: ConvProblem, mode: str
) -> None:
    found = bench.open().find(problem, mode)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document == found.to_dict()
    for told, solution in zip(document["solutions"], found.solutions, strict=True):
        is_measured = solution.time_origin.is_measured
        assert (told["time_ms"] > 0) is (solution.time_ms is not None) is is_measured
        assert abs(told["time_ms"]) == (solution.estimate_ms or 1.0)
    reasons = {one["solver"]: one["reason"] for one in document["rejected"]}
    assert reasons == {solver: why.reason for solver, why in found.rejected.items()}


def test_consoles_and_notebooks_show_the_same_cells(found: FindResult) -> None:
    text = io.StringIO()
    rich.console.Console(file=text, width=250).print(found)
    cells = [html.unescape(c) for c in re.findall(r"<t[hd]>(.*?)</t[hd]>", found._repr_html_())]
    assert len(cells) == 9 * (1 + len(found.solutions))
    assert "".join("".join(cells).split()) == "".join(text.getvalue().replace("─", "").split())
    assert found.problem in found._repr_html_()
    printed = str(found).replace("─", "")
    assert "".join(printed.split()) == "".join("".join(cells).split())


def test_html_escapes_what_plugins_are_called(found: FindResult) -> None:
    named = replace(found, solutions=(replace(found.best, solver="<b>&"),))
    assert "<td>&lt;b&gt;&amp;</td>" in named._repr_html_()


def test_the_known_time_follows_the_measured_one(found: FindResult) -> None:
    assert found.best.estimate_ms == found.best.time_ms
    assert replace(found.best, time_ms=7.0).estimate_ms == 7.0


@pytest.mark.parametrize(
    ("time_ms", "origin", "measured", "known"),
    [
        (1.5, TimeOrigin.MEASURED, 1.5, 1.5),
        (0.25, TimeOrigin.SYSTEM_DB, 0.25, 0.25),
        (-3.0, TimeOrigin.PREDICTED, None, 3.0),
        (-20.0, TimeOrigin.WTI, None, 20.0),
        (-1.0, TimeOrigin.NONE, None, None),
    ],
)
def test_saved_solutions_of_earlier_versions_are_read(
    tmp_path: Path, time_ms: float, origin: TimeOrigin, measured: float | None, known: float | None
) -> None:
    solution = Solution.from_bytes((SAVED % (time_ms, origin.value)).encode())
    assert (solution.time_ms, solution.estimate_ms) == (measured, known)
    assert (solution.time_origin, solution.signed_ms) == (origin, time_ms)
    solution.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())["time_ms"] == time_ms
    assert Solution.load(tmp_path / "again.json") == solution
