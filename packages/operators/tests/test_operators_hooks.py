"""Operators are found by the word of their kind, and run through a handle as anything else does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convfind
from convfind.plugins.registry import default_registry
from convfind_operators import PoolingProblem, problem_types, solvers


@pytest.mark.parametrize("problem", problem_types(), ids=lambda problem: problem.kind)
def test_every_kind_is_found_by_its_word_and_has_a_solver(problem: type) -> None:
    registry = default_registry()
    assert registry.problem_type(problem.kind) is problem  # type: ignore[attr-defined]
    ids = {solver.solver_id for solver in registry.solvers}
    assert f"operators-{problem.kind}" in ids  # type: ignore[attr-defined]


def test_every_solver_is_of_one_kind() -> None:
    kinds = {solver.solver_id: solver.domain.problem for solver in solvers()}
    expected = {f"operators-{problem.kind}": problem.kind for problem in problem_types()}
    own = ("operators-attention-cpu", "operators-attention-nvidia", "operators-attention-wgmma")
    more = dict.fromkeys(own, "attention")
    assert kinds == {**expected, **more, "operators-matmul-library": "matmul"}
    assert len(kinds) == len(solvers())


def test_a_handle_runs_an_operator_without_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(tmp_path))
    made = default_registry().problem_type("pooling")
    problem = made(x=(2, 5, 9, 20), function="max", size=3, stride=2, padding=1)
    assert isinstance(problem, PoolingProblem)
    x = np.random.default_rng(6).standard_normal((2, 5, 9, 20)).astype(np.float32)
    with convfind.open("opencl:cpu") as handle:
        found = handle.find(problem)
        assert (found.measured, found.compiled) == (0, 0)
        assert found.best.solver == "operators-pooling"
        result = handle.run(found.best, x=x)
    np.testing.assert_array_equal(result, problem.reference({"x": x})["y"])
