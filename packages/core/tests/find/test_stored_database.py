"""A database that an earlier convfind wrote opens, and answers as it did then.

``finddb/data/stored.lmdb`` was written by finds with `mock_solvers` before core knew other problems
than convolutions, memory of other names than x, w and y, and solvers of several kinds.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.checking.random_data import random_data
from convfind.checking.reference import reference_convolution
from convfind.find.result import FindOrigin
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.testing import MOCK_TARGET

STORED = Path(__file__).parents[1] / "finddb/data/stored.lmdb"
LAYER = "fwd-2x4x6x6-8x4x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32"
PACKING = ("mock-packing", 0.08)
#: Key, and solvers with their milliseconds beside those that take all of them.
ANSWERS = {
    LAYER: [PACKING],
    "bwd-data-2x4x6x6-8x2x3x3-s2x2-p0x0-d1x1-g2-NHWC-float32": [PACKING],
    "bwd-weights-1x3x9-4x3x3-s1-p0-d1-g1-NCW-float16_beta:0.5": [],
    "fwd-1x4x5x5-4x3x2x2-s2x2-p0x0-d1x1-g1-NCHW-float64_mode:transpose": [PACKING],
}
FIRST = [("mock-hungry", 0.03), ("mock-tunable", 0.05), ("mock-static", 0.06)]
LAST = [("mock-dynamic", 0.1)]


@pytest.fixture(params=["", "family 25 model 17"])
def handle(bench: Any, request: Any) -> Any:
    """A device as it was named then, and one that says its model now."""
    shutil.copy(STORED, bench.folder / "finddb.lmdb")
    target = replace(MOCK_TARGET, identity="", cpu_model=request.param)
    bench.backend.devices = (target,)
    return bench.open()


@pytest.mark.parametrize("key", ANSWERS)
def test_it_answers_as_it_did(handle: Any, key: str) -> None:
    found = handle.find(ConvProblem.from_key(key))
    assert (found.origin, found.measured, found.compiled) == (FindOrigin.USER_DB, 0, 0)
    times = [(solution.solver, round(solution.time_ms, 6)) for solution in found.solutions]
    assert times == [*FIRST, *ANSWERS[key], *LAST]
    tuned = next(one for one in found.solutions if one.solver == "mock-tunable")
    assert dict(tuned.config) == {"tile": 8}
    assert not handle.database.health()


def test_its_quarantine_is_in_force(handle: Any) -> None:
    rows = {row.solver: row for row in handle.explain(ConvProblem.from_key(LAYER)).rows}
    assert rows["mock-wrong"].applicability.reason is Reason.QUARANTINED


@pytest.mark.parametrize("key", ANSWERS)
def test_its_solutions_run(handle: Any, key: str) -> None:
    problem = ConvProblem.from_key(key)
    first, second = random_data(problem, seed=1)
    out = np.zeros(problem.shape(problem.direction.writes), problem.dtype.numpy)
    layout = problem.tensor_layout(problem.direction.writes)
    right = reference_convolution(problem, first, second, layout_like(out, layout.channels_last))
    for solution in handle.find(problem).solutions:
        given = dict(zip(problem.direction.reads, (first, second), strict=True))
        result = handle.run(solution, **given, out=out.copy() if problem.beta else None)
        if result.shape != right.shape:
            result = np.moveaxis(result, 1, -1)
        np.testing.assert_allclose(result, right, rtol=1e-2, atol=1e-2)


def test_what_is_measured_now_stands_beside_it(handle: Any) -> None:
    problem = ConvProblem.from_key(LAYER)
    before = handle.find(problem).solutions
    again = handle.find(problem, solvers=["mock-dynamic"], replace=True, use_db=False)
    assert again.measured == 1
    own, _, quarantined = handle.database.own(handle.target, problem)
    assert {record.solver for record in own.records} == {one.solver for one in before}
    assert "mock-wrong" in {one.solver for one in quarantined}
    handle.database.release(handle.target, problem, "mock-wrong")
    handle.database.remove(handle.target, problem)
    assert handle.database.own(handle.target, problem) == (None, (), ())


def layout_like(array: np.ndarray[Any, Any], channels_last: bool) -> np.ndarray[Any, Any]:
    return np.moveaxis(array, 1, -1) if channels_last else array
