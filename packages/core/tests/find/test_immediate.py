"""The chain of fallbacks: heuristic, throughput index, GEMM, last resort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from convfind.device.target import DeviceKind, Target
from convfind.errors import SettingsError
from convfind.find.solution import TimeOrigin
from convfind.find.sources import kinship
from convfind.finddb import FindEntry, FindRecord
from convfind.handle.opening import handle_for
from convfind.heuristics import NotApplicable, Prediction
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.solver import Solver
from convfind.testing import MockSolver, mock_solvers
from convfind.testing.mock_backend import MOCK_TARGET
from convfind.testing.solvers import MockHungry
from convfind.types import Algorithm


class Model:
    """Knows problems with two images only, and likes the packing solver."""

    name = "model"

    def predict(
        self, problem: ConvProblem, target: Target, solvers: Sequence[Solver]
    ) -> Sequence[Prediction] | NotApplicable:
        if problem.x_shape[0] != 2:
            return NotApplicable("for two images only")
        ids = [solver.solver_id for solver in solvers]
        return [Prediction(id_, 1.0 + (id_ != "mock-packing"), 0.8) for id_ in ids]


class Gemm(MockSolver):
    """A solver of the GEMM family."""

    solver_id = "mock-gemm"
    algorithm = Algorithm.GEMM
    is_dynamic = True


class Plugin:
    """Everything above."""

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend([*mock_solvers(), Gemm()])

    @hookimpl
    def convfind_register_heuristics(self, register: Any) -> None:
        register.add(Model())


def _handle(bench: Any) -> Any:
    registry = Registry.build([Plugin()], load_entry_points=False)
    assert registry.failures == ()
    return handle_for(bench.backend.open(), registry, Settings(user_db_path=bench.folder))


def test_the_heuristic_decides_inside_its_domain(bench: Any, problem: ConvProblem) -> None:
    with _handle(bench) as handle:
        best = handle.find(problem, "FAST").best
        assert (best.solver, best.time_ms, best.estimate_ms) == ("mock-packing", None, 1.0)
        assert best.time_origin is TimeOrigin.PREDICTED
        assert best.confidence == 0.8


def test_outside_its_domain_the_index_decides(bench: Any, problem: ConvProblem) -> None:
    with _handle(bench) as handle:
        best = handle.find(problem.with_batch(3), "FAST").best
        assert (best.solver, best.time_origin) == ("mock-dynamic", TimeOrigin.WTI)
        assert (best.time_ms, best.estimate_ms) == (None, pytest.approx(20.0))


def _record(
    handle: Any, problem: ConvProblem, target: Target | None = None, **times: float
) -> None:
    records = tuple(
        FindRecord(
            solver=f"mock-{name}", solver_version=1, package="", algorithm="direct", time_ms=time
        )
        for name, time in times.items()
    )
    handle.database.store(target or handle.target, problem, FindEntry(records=records))


def test_records_of_another_batch_size_decide_before_the_index(
    bench: Any, problem: ConvProblem
) -> None:
    asked = problem.with_batch(4)
    with _handle(bench) as handle:
        assert handle.find(asked, "FAST").best.solver == "mock-dynamic"
        _record(handle, problem.with_batch(8), packing=0.1, dynamic=3.0)
        best = handle.find(asked, "FAST").best
        assert (best.solver, best.time_origin) == ("mock-packing", TimeOrigin.FORECAST)
        assert (best.time_ms, best.confidence) == (None, None)
        assert best.estimate_ms is not None
        assert 0.0 < best.estimate_ms < 1.0
        assert handle.find(asked, "FAST", fallback="wti").best.time_origin is TimeOrigin.WTI
        last = handle.find(asked, "FAST").solutions[-1]
        assert last.solver == "mock-last-resort"


@pytest.mark.parametrize(
    ("kin", "is_kin"),
    [
        ({"compute_units": 16}, True),  # the same model with other units
        ({"name": "another device"}, True),  # the same architecture
        ({"arch": "x86-64-avx2", "platform": "elsewhere"}, False),
    ],
)
def test_records_of_a_sibling_decide_before_the_index(
    bench: Any, problem: ConvProblem, kin: dict[str, Any], is_kin: bool
) -> None:
    asked = problem.with_batch(3)
    with _handle(bench) as handle:
        assert handle.find(asked, "FAST").best.time_origin is TimeOrigin.WTI
        other = replace(handle.target, identity="", **kin)
        _record(handle, asked, other, packing=0.1, dynamic=3.0)
        assert handle.database.devices() == (other.identity,)
        best = handle.find(asked, "FAST").best
        if not is_kin:
            assert best.time_origin is TimeOrigin.WTI
            return
        assert (best.solver, best.time_origin) == ("mock-packing", TimeOrigin.SIBLING)
        assert (best.time_ms, best.confidence) == (None, None)
        measured = handle.find(asked)  # no answer, only a word on who runs first
        assert measured.measured > 0
        assert measured.best.time_origin is TimeOrigin.MEASURED


def test_the_closest_sibling_speaks(bench: Any, problem: ConvProblem) -> None:
    asked = problem.with_batch(3)
    with _handle(bench) as handle:
        far = replace(handle.target, identity="", name="another device")
        near = replace(handle.target, identity="", compute_units=16)
        _record(handle, asked, far, dynamic=0.1, packing=3.0)
        assert handle.find(asked, "FAST").best.solver == "mock-dynamic"
        _record(handle, asked, near, dynamic=3.0, packing=0.1)
        assert handle.find(asked, "FAST").best.solver == "mock-packing"
        assert set(handle.database.devices()) == {far.identity, near.identity}


def test_what_immediate_mode_rests_on_is_explained(bench: Any, problem: ConvProblem) -> None:
    asked = problem.with_batch(4)
    with _handle(bench) as handle:
        _record(handle, problem.with_batch(8), packing=0.1, dynamic=3.0)
        rows = {row.solver: row for row in handle.explain(asked, "FAST").rows}
        forecast = rows["mock-packing"].forecast
        assert forecast is not None
        assert forecast.source == "record of another batch size"
        assert forecast.time_ms == handle.find(asked, "FAST").best.estimate_ms


def test_the_chain_can_start_further_down(bench: Any, problem: ConvProblem) -> None:
    with _handle(bench) as handle:
        assert handle.find(problem, "FAST", fallback="wti").best.solver == "mock-dynamic"
        gemm = handle.find(problem, "FAST", fallback="gemm")
        assert [s.solver for s in gemm.solutions] == ["mock-gemm", "mock-last-resort"]
        assert gemm.best.time_origin is TimeOrigin.NONE
        assert gemm.best.estimate_ms is None
        with pytest.raises(SettingsError, match="ai, wti, gemm"):
            handle.find(problem, "FAST", fallback="magic")


def test_only_dynamic_solvers_are_suggested(bench: Any, problem: ConvProblem) -> None:
    with _handle(bench) as handle:
        suggested = {s.solver for s in handle.find(problem, "FAST").solutions}
        assert "mock-static" not in suggested


class HungryGemm(MockHungry):
    """A solver of the GEMM family without an index, which needs workspace."""

    solver_id = "mock-hungry-gemm"
    algorithm = Algorithm.GEMM


@pytest.mark.parametrize("order", ["time", "workspace"])
@pytest.mark.parametrize("fallback", ["ai", "wti", "gemm"])
def test_last_resorts_come_last_whatever_is_expected_of_them(
    bench: Any, problem: ConvProblem, fallback: str, order: str
) -> None:
    handle = bench.open("mock-last-resort", extra=[HungryGemm()])
    found = handle.find(problem, "FAST", fallback=fallback, order=order)
    assert [s.solver for s in found.solutions] == ["mock-hungry-gemm", "mock-last-resort"]


def test_within_the_workspace_limit_a_last_resort_comes_before_what_does_not_fit(
    bench: Any, problem: ConvProblem
) -> None:
    handle = bench.open("mock-last-resort", extra=[HungryGemm()])
    found = handle.find(problem, "FAST", fallback="gemm", workspace_limit=0)
    assert [s.solver for s in found.solutions] == ["mock-last-resort", "mock-hungry-gemm"]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"name": "another memory"}, "twin"),
        ({"platform": "another runtime"}, "model"),
        ({"name": "another", "compute_units": 16}, "architecture"),
        ({"arch": "another", "platform": "another runtime"}, None),
        ({}, None),  # itself
    ],
)
def test_a_gpu_of_as_many_units_is_a_twin(other: dict[str, Any], expected: str | None) -> None:
    gpu = replace(MOCK_TARGET, identity="", kind=DeviceKind.GPU, compute_units=132)
    assert kinship(replace(gpu, identity="", **other).identity, gpu) == expected
