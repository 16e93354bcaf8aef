"""Each call, type and variable of MIOpen in ``docs/miopen-parity.md`` has its counterpart."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convfind
from convfind.checking.reference import reference_convolution
from convfind.device.target import DeviceKind
from convfind.errors import SettingsError, SolutionError, WorkspaceError
from convfind.find.solution import TimeOrigin
from convfind.handle import Handle
from convfind.handle.miopen_calls import FindOptions
from convfind.handle.opening import handle_for
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.policy import FindMode
from convfind.problem import ConvProblem
from convfind.runtime.backend import Invoker
from convfind.settings import Settings
from convfind.solver.recipe import Recipe
from convfind.testing import MOCK_TARGET, MockBackend, MockSolver, mock_solvers
from convfind.types import Algorithm, Direction

Open = Callable[..., Handle]
PROBLEM = ConvProblem.forward(x=(2, 4, 6, 6), w=(8, 4, 3, 3), padding=1)


class Gemm(MockSolver):
    """A second algorithm."""

    solver_id = "mock-gemm"
    algorithm = Algorithm.GEMM
    is_dynamic = True
    microseconds = 70


class Plugin:
    """The mock solvers and a GEMM."""

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend([*mock_solvers(), Gemm()])


@pytest.fixture
def backend() -> MockBackend:
    return MockBackend()


@pytest.fixture
def open_handle(tmp_path: Path, backend: MockBackend) -> Iterator[Open]:
    handles = []

    def run(environ: dict[str, str] | None = None) -> Handle:
        settings = Settings.from_environment(
            {"CONVFIND_USER_DB_PATH": str(tmp_path), **(environ or {})}
        )
        registry = Registry.build([Plugin()], load_entry_points=False)
        handles.append(handle_for(backend.open(), registry, settings))
        return handles[-1]

    yield run
    for handle in handles:
        handle.close()


@pytest.fixture
def tensors() -> dict[str, np.ndarray[Any, Any]]:
    generator = np.random.default_rng(3)
    return {
        "x": generator.standard_normal((2, 4, 6, 6)).astype(np.float32),
        "w": generator.standard_normal((8, 4, 3, 3)).astype(np.float32),
    }


def _right(result: Any, tensors: dict[str, Any], problem: ConvProblem = PROBLEM) -> bool:
    return np.allclose(
        result, reference_convolution(problem, tensors["x"], tensors["w"]), atol=1e-4
    )


def test_workspace_size(open_handle: Open, backend: MockBackend) -> None:
    handle = open_handle()
    assert handle.miopen.workspace_size(PROBLEM) == 2**20
    assert handle.miopen.workspace_size(PROBLEM, deny=["mock-hungry"]) == PROBLEM.nbytes("w")
    handle.find(PROBLEM, "NORMAL")
    assert handle.miopen.workspace_size(PROBLEM) == 2**20
    assert open_handle().miopen.workspace_size(PROBLEM.with_batch(3)) == 2**20


def test_find_algorithms(open_handle: Open) -> None:
    handle = open_handle()
    found = handle.miopen.find_algorithms(PROBLEM)
    assert [(p.algorithm, p.solution.solver) for p in found] == [
        (Algorithm.DIRECT, "mock-hungry"),
        (Algorithm.GEMM, "mock-gemm"),
    ]
    assert [p.time_ms for p in found] == sorted(p.time_ms for p in found)
    assert found[0].workspace == 2**20
    assert len(handle.miopen.find_algorithms(PROBLEM, request_count=1)) == 1
    limited = handle.miopen.find_algorithms(PROBLEM, workspace=0)
    assert all(p.workspace == 0 for p in limited)
    tuned = handle.miopen.find_algorithms(PROBLEM, exhaustive=True, solvers=["mock-tunable"])
    assert tuned[0].time_ms == pytest.approx(0.05)
    with pytest.raises(SettingsError, match="request_count"):
        handle.miopen.find_algorithms(PROBLEM, request_count=0)


def test_run_algorithm(open_handle: Open, tensors: dict[str, Any]) -> None:
    with pytest.raises(SolutionError, match="find_algorithms"):
        open_handle().miopen.run_algorithm(PROBLEM, "gemm", **tensors)
    open_handle().miopen.find_algorithms(PROBLEM)
    later = open_handle()
    assert _right(later.miopen.run_algorithm(PROBLEM, Algorithm.GEMM, **tensors), tensors)
    assert _right(later.miopen.run_algorithm(PROBLEM, "direct", **tensors), tensors)
    with pytest.raises(SolutionError, match="winograd"):
        later.miopen.run_algorithm(PROBLEM, Algorithm.WINOGRAD, **tensors)
    scaled = ConvProblem.forward(x=(2, 4, 6, 6), w=(8, 4, 3, 3), padding=1, alpha=2.0, beta=-1.0)
    later.miopen.find_algorithms(scaled)
    out = np.ones(scaled.y_shape, np.float32)
    later.miopen.run_algorithm(scaled, "gemm", **tensors, out=out)
    expected = 2 * reference_convolution(PROBLEM, tensors["x"], tensors["w"]) - 1
    assert np.allclose(out, expected, atol=1e-4)


def test_solution_count(open_handle: Open) -> None:
    handle = open_handle()
    assert handle.miopen.solution_count(PROBLEM) == len(handle.miopen.solutions(PROBLEM))
    measured = handle.find(PROBLEM, "NORMAL")
    assert handle.miopen.solution_count(PROBLEM) == len(measured.solutions)


def test_solutions(open_handle: Open, backend: MockBackend) -> None:
    handle = open_handle()
    estimates = handle.miopen.solutions(PROBLEM)
    assert backend.counters.launches == 0
    assert all(s.time_ms is None and not s.time_origin.is_measured for s in estimates)
    handle.find(PROBLEM, "NORMAL")
    recorded = handle.miopen.solutions(PROBLEM)
    assert all(s.time_origin is TimeOrigin.USER_DB for s in recorded)
    assert [s.signed_ms for s in recorded] == sorted(s.signed_ms for s in recorded)
    assert handle.miopen.solutions(PROBLEM, 2) == recorded[:2]


def test_solution_workspace_size(open_handle: Open) -> None:
    handle = open_handle()
    assert handle.miopen.solution_workspace_size(PROBLEM, "mock-hungry") == 2**20
    assert handle.miopen.solution_workspace_size(PROBLEM, "mock-dynamic") == 0
    weights = PROBLEM.with_direction("backward-weights")
    with pytest.raises(SolutionError, match="packs weights"):
        handle.miopen.solution_workspace_size(weights, "mock-packing")
    with pytest.raises(SolutionError, match="mock-dynamic"):
        handle.miopen.solution_workspace_size(PROBLEM, "mock-dynamik")


def test_compile_solution(open_handle: Open, backend: MockBackend, tensors: dict[str, Any]) -> None:
    open_handle().miopen.compile_solution(PROBLEM, "mock-static")
    assert (backend.counters.compiles, backend.counters.launches) == (1, 0)
    open_handle().miopen.run_immediate(PROBLEM, "mock-static", **tensors)
    assert backend.counters.compiles == 1


def test_run_immediate(open_handle: Open, tensors: dict[str, Any]) -> None:
    handle = open_handle()
    for solver in ("mock-static", "mock-hungry", "mock-packing", "mock-last-resort"):
        assert _right(handle.miopen.run_immediate(PROBLEM, solver, **tensors), tensors)
    workspace = handle.tensor(np.zeros(2**20, np.float32))
    result = handle.miopen.run_immediate(PROBLEM, "mock-hungry", **tensors, workspace=workspace)
    assert _right(result, tensors)
    small = handle.tensor(np.zeros(4, np.float32))
    with pytest.raises(WorkspaceError, match="needs 1048576"):
        handle.miopen.run_immediate(PROBLEM, "mock-hungry", **tensors, workspace=small)


def test_immediate_fallback(open_handle: Open) -> None:
    assert open_handle().miopen.solutions(PROBLEM)[0].time_origin is TimeOrigin.WTI
    gemm = open_handle({"CONVFIND_IMMEDIATE_FALLBACK": "gemm"}).miopen.solutions(PROBLEM)
    assert [s.solver for s in gemm] == ["mock-gemm", "mock-last-resort"]
    with pytest.raises(SettingsError, match="ai, wti, gemm"):
        open_handle({"CONVFIND_IMMEDIATE_FALLBACK": "on"})


def test_find_solutions(open_handle: Open) -> None:
    handle = open_handle()
    by_time = handle.miopen.find_solutions(PROBLEM)
    assert [s.signed_ms for s in by_time] == sorted(s.signed_ms for s in by_time)
    small = handle.miopen.find_solutions(PROBLEM, FindOptions(order="workspace"), max_solutions=1)
    assert small[0].workspace == 0
    limited = handle.miopen.find_solutions(PROBLEM, FindOptions(workspace_limit=1000))
    assert all(s.over_limit == (s.workspace > 1000) for s in limited)
    assert not limited[0].over_limit
    mine = handle.tensor(np.zeros(100, np.float32))
    assert handle.miopen.find_solutions(PROBLEM, FindOptions(workspace=mine))[0].workspace <= 400
    tuned = handle.miopen.find_solutions(
        PROBLEM, FindOptions(tune=True, mode="NORMAL", policy={"solvers": ["mock-tunable"]})
    )
    assert tuned[0].time_ms == pytest.approx(0.05)


def test_run_solution(
    open_handle: Open, backend: MockBackend, tensors: dict[str, Any], tmp_path: Path
) -> None:
    options = FindOptions(attach_binaries=True)
    solution = open_handle().miopen.find_solutions(PROBLEM, options)[0]
    assert _right(open_handle().miopen.run_solution(solution, **tensors), tensors)
    assert pickle.loads(pickle.dumps(solution)) == solution
    solution.save(tmp_path / "best.json")
    loaded = convfind.Solution.load(tmp_path / "best.json", binaries=True)
    assert loaded == solution
    compiles = backend.counters.compiles
    elsewhere = open_handle({"CONVFIND_USER_DB_PATH": str(tmp_path / "elsewhere")})
    assert _right(elsewhere.miopen.run_solution(loaded, **tensors), tensors)
    assert backend.counters.compiles == compiles
    other = replace(MOCK_TARGET, identity="", name="another")
    backend.devices = (other,)
    with pytest.raises(SolutionError, match="another"):
        open_handle().miopen.run_solution(loaded, **tensors)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(b"{}", "missing required field"), (b"nonsense", "malformed"), (None, "No such file")],
)
def test_what_is_no_saved_solution_is_refused(
    tmp_path: Path, text: bytes | None, complaint: str
) -> None:
    path = tmp_path / "solution.json"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(SolutionError, match=complaint):
        convfind.Solution.load(path)


def test_find_mode_variable(open_handle: Open) -> None:
    assert open_handle({"MIOPEN_FIND_MODE": "normal"}).find(PROBLEM).mode == "NORMAL"
    both = {"MIOPEN_FIND_MODE": "normal", "CONVFIND_FIND_MODE": "2"}
    assert open_handle(both).find(PROBLEM).mode == "FAST"
    assert open_handle(both).find(PROBLEM, mode="Hybrid").mode == "HYBRID"
    with pytest.raises(SettingsError, match=r"MIOPEN_FIND_MODE.*DYNAMIC_HYBRID or 5"):
        open_handle({"MIOPEN_FIND_MODE": "slow"})


def test_find_mode_normal(open_handle: Open) -> None:
    handle = open_handle()
    assert handle.find(PROBLEM, 1).measured == handle.find(PROBLEM, "NORMAL").measured == 6


def test_find_mode_fast(open_handle: Open, backend: MockBackend) -> None:
    handle = open_handle()
    assert handle.find(PROBLEM, 2).origin == "fallback"
    handle.find(PROBLEM, 1)
    launches = backend.counters.launches
    assert handle.find(PROBLEM, 2).origin == "user-db"
    assert backend.counters.launches == launches


def test_find_mode_hybrid(open_handle: Open) -> None:
    handle = open_handle()
    assert handle.find(PROBLEM, 3).measured == 6
    hit = handle.find(PROBLEM, 3)
    assert (hit.measured, len(hit.solutions)) == (0, 6)


def test_find_mode_4_is_reserved(open_handle: Open) -> None:
    with pytest.raises(SettingsError, match="NORMAL or 1"):
        open_handle().find(PROBLEM, 4)


def test_find_mode_dynamic_hybrid(open_handle: Open) -> None:
    handle = open_handle()
    found = handle.find(PROBLEM)
    assert (found.mode, found.measured) == ("DYNAMIC_HYBRID", 5)
    assert "mock-static" in found.rejected
    hit = handle.find(PROBLEM, 5)
    assert (hit.measured, len(hit.solutions)) == (0, 5)


def test_the_mode_of_fixed_sizes(open_handle: Open, backend: MockBackend) -> None:
    on_cpu = open_handle()
    assert on_cpu.mode_for_fixed_sizes() is FindMode.DYNAMIC_HYBRID
    backend.devices = (replace(MOCK_TARGET, identity="", kind=DeviceKind.GPU),)
    on_gpu = open_handle()
    assert on_gpu.mode_for_fixed_sizes() is FindMode.HYBRID
    assert on_gpu.mode_for_fixed_sizes("fast") == "fast"
    assert on_gpu.find(PROBLEM).mode == "DYNAMIC_HYBRID", "MIOpen's default is a find's own"
    asked = open_handle({"MIOPEN_FIND_MODE": "DYNAMIC_HYBRID"})
    assert asked.mode_for_fixed_sizes() is FindMode.DYNAMIC_HYBRID


def test_compile_parallel_level() -> None:
    for name in ("CONVFIND_COMPILE_PARALLEL_LEVEL", "MIOPEN_COMPILE_PARALLEL_LEVEL"):
        assert Settings.from_environment({name: "3"}).compile_parallel_level == 3
        with pytest.raises(SettingsError, match=name):
            Settings.from_environment({name: "0"})


def test_solver_builds_a_solution(backend: MockBackend) -> None:
    recipe = Gemm().solution(PROBLEM, MOCK_TARGET)
    assert isinstance(recipe, Recipe)
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    device = backend.open()
    loaded = {p: device.load(p, device.compile(p)) for p in recipe.programs}
    invoker: Invoker = device.invoker(recipe.steps, loaded)
    assert callable(invoker)


def test_network_config() -> None:
    assert PROBLEM.key == "fwd-2x4x6x6-8x4x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32"
    assert ConvProblem.from_key(PROBLEM.key) == PROBLEM


def test_second_find_is_a_hit(open_handle: Open) -> None:
    open_handle().find(PROBLEM)
    again = open_handle().find(PROBLEM)
    assert (again.origin, again.compiled, again.measured) == ("user-db", 0, 0)


def test_second_run_compiles_nothing(
    open_handle: Open, backend: MockBackend, tensors: dict[str, Any]
) -> None:
    handle = open_handle()
    best = handle.find(PROBLEM).best
    handle.run(best, **tensors)
    before = (backend.counters.compiles, backend.counters.loads)
    assert handle.prepare(best) is handle.prepare(best)
    handle.run(best, **tensors)
    assert (backend.counters.compiles, backend.counters.loads) == before


@pytest.mark.parametrize("direction", Direction)
def test_transposed_problems(open_handle: Open, direction: Direction) -> None:
    problem = ConvProblem.create(
        direction, (2, 8, 5, 5), (8, 3, 3, 3), stride=2, padding=1, mode="transpose"
    )
    generator = np.random.default_rng(5)
    given = {
        name: generator.standard_normal(problem.shape(name)).astype(np.float32)
        for name in direction.reads
    }
    handle = open_handle()
    result = handle.run(handle.find(problem).best, **given)
    expected = reference_convolution(problem, *given.values())
    assert result.shape == problem.shape(direction.writes)
    assert np.allclose(result, expected, atol=1e-4)


def test_solvers_come_from_plugins(open_handle: Open) -> None:
    assert Registry.build(load_entry_points=False).solvers == ()
    assert "mock-gemm" in {s.solver_id for s in open_handle().registry.solvers}
