"""Solvers that know no epilogues take fused problems with a step of core's behind them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.checking.random_data import random_operands
from convfind.checking.reference import reference_convolution
from convfind.errors import SettingsError, SolutionError
from convfind.find.result import FindOrigin
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.kit.composed import composed
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry, default_registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.solver import Domain
from convfind.solver.applicability import Rejected
from convfind.testing import check_solver
from convfind.types import Direction
from convfind_solvers_direct.naive import NaiveSolver

PLAIN = "third-party-fwd"
COMPOSED = f"{PLAIN}+epilogue"
NATIVE = "direct-naive-fwd"


class Stranger(NaiveSolver):
    """A solver from before there were epilogues."""

    solver_id = PLAIN
    is_last_resort = False

    def __init__(self) -> None:
        self.direction = Direction.FORWARD
        self.domain = Domain(directions=(Direction.FORWARD,))


class Elsewhere(Stranger):
    """One for another backend."""

    solver_id = "elsewhere-fwd"
    backends = ("elsewhere",)


class Plugin:
    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend([Stranger(), Elsewhere(), NaiveSolver(Direction.FORWARD)])


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[Handle]:
    registry = Registry.build([Plugin()], load_entry_points=False)
    device = default_registry().backends["opencl"].open("cpu")
    with handle_for(device, registry, Settings(user_db_path=tmp_path)) as opened:
        yield opened


def layer(**more: Any) -> ConvProblem:
    options = {"padding": 1, "bias": True, "add": True, "activation": "silu", **more}
    return ConvProblem.forward((2, 6, 9, 10), (12, 6, 3, 3), **options)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_it_is_found_recorded_recalled_saved_and_run(
    handle: Handle, tmp_path: Path, layout: str
) -> None:
    problem = layer(layout=layout)
    found = handle.find(problem, mode="NORMAL", solvers=[COMPOSED])
    assert (found.best.solver, found.origin) == (COMPOSED, FindOrigin.MEASURED)
    assert found.best.error is not None
    again = handle.find(problem, solvers=[COMPOSED])
    assert (again.best.solver, again.origin) == (COMPOSED, FindOrigin.USER_DB)
    again.best.save(tmp_path / "saved.json")
    tensors = random_operands(problem, 1)
    expected = reference_convolution(problem, *(tensors[n] for n in ("x", "w", "z", "bias")))
    for solution in (found.best, type(again.best).load(tmp_path / "saved.json")):
        np.testing.assert_allclose(handle.run(solution, **tensors), expected, atol=1e-5)
        out = tensors["z"].copy()
        handle.run(solution, **{**tensors, "z": out}, out=out)
        np.testing.assert_allclose(out, expected, atol=1e-5)
        bound = handle.bind(solution, w=tensors["w"], bias=tensors["bias"])
        result = bound.run(x=tensors["x"], z=tensors["z"])
        np.testing.assert_allclose(result, expected, atol=1e-5)


def test_explaining_shows_it_beside_the_refusal_of_the_solver_itself(handle: Handle) -> None:
    rows = {row.solver: row for row in handle.explain(layer()).rows}
    refusal = rows[PLAIN].applicability
    assert isinstance(refusal, Rejected)
    assert refusal.reason == "epilogue"
    assert rows[COMPOSED].applicability
    assert rows[NATIVE].applicability
    assert f"{NATIVE}+epilogue" not in rows
    other = rows["elsewhere-fwd+epilogue"].applicability
    assert isinstance(other, Rejected)
    assert other.reason == "backend"
    assert COMPOSED not in {row.solver for row in handle.explain(layer().without_epilogue()).rows}


def test_policies_name_it_or_the_solver_that_it_completes(handle: Handle) -> None:
    for names in ([PLAIN], [COMPOSED]):
        found = handle.find(layer(), mode="NORMAL", solvers=names)
        assert [one.solver for one in found.solutions] == [COMPOSED]
        denied = handle.find(layer(), mode="NORMAL", deny=names)
        assert COMPOSED not in [one.solver for one in denied.solutions]
    with pytest.raises(SettingsError):
        handle.find(layer(), solvers=[f"{NATIVE}+epilogue"])


def test_it_is_looked_up_by_its_id(handle: Handle) -> None:
    registry = handle.registry
    assert registry.solver(COMPOSED).solver_id == COMPOSED
    assert registry.package_of(COMPOSED) == registry.package_of(PLAIN)
    for unknown in (f"{NATIVE}+epilogue", "nobody+epilogue"):
        assert registry.find_solver(unknown) is None
        with pytest.raises(SolutionError):
            registry.solver(unknown)


def test_plain_problems_see_nothing_of_it(handle: Handle) -> None:
    found = handle.find(layer().without_epilogue(), mode="NORMAL")
    assert {one.solver for one in found.solutions} | set(found.rejected) == {
        *(PLAIN, NATIVE, "elsewhere-fwd")
    }


def test_it_keeps_the_contract_of_solvers(handle: Handle) -> None:
    shapes = [
        layer(),
        layer(layout="NHWC", add=False),
        layer(beta=0.5, add=False, activation="relu", layout="NHWC"),
        layer(beta=-2.0, dtype="float16", activation="leaky:0.1"),
        layer(beta=-2.0, dtype="float16", activation="gelu-erf", add_last=True),
        layer(y_strides=(1500, 110, 11, 1), add_last=True),
        layer(dtype="int8", activation=None),
        layer(dtype="int8", y_dtype="float32", activation="clip", layout="NHWC", add=False),
        layer(y_strides=(1500, 110, 11, 1)),
        layer(y_strides=(2000, 1, 160, 15), y_layout="NHWC", add=False),
        ConvProblem.forward((2, 6, 70), (12, 6, 3), bias=True, add=True, layout="NWC"),
        ConvProblem.forward((1, 3, 4, 5, 6), (5, 3, 2, 2, 2), bias=True, activation="abs"),
    ]
    report = check_solver(
        composed(Stranger()), handle.session.device, shapes=shapes, every_variant=False
    )
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)
