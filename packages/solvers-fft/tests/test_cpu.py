"""The FFT solvers for CPUs keep the contract and their error bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from devices_for_tests import on_cpu

from convfind.checking.accuracy import check_error, error_bound, measure_error, spread_magnitude
from convfind.checking.random_data import random_data
from convfind.checking.random_numbers import Distribution
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device, InvokeArgs
from convfind.solver import TunableSolver
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind.testing import MOCK_TARGET, check_solver
from convfind.types import AccuracyClass, DataType, Direction, Layout
from convfind_solvers_fft.codegen import SIZES
from convfind_solvers_fft.cpu import CpuSolver
from convfind_solvers_fft.cpu_dense import CpuDenseSolver
from convfind_solvers_fft.cpu_depthwise import CpuDepthwiseSolver
from convfind_solvers_fft.cpu_depthwise_weights import CpuDepthwiseWeightsSolver
from convfind_solvers_fft.cpu_weights import CpuWeightsSolver
from convfind_solvers_fft.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

DEPTHWISE = (CpuDepthwiseSolver, CpuDepthwiseWeightsSolver)
SOLVERS = [solver for solver in solvers() if isinstance(solver, CpuSolver)]
KINDS = (CpuDenseSolver, CpuWeightsSolver, *DEPTHWISE)
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)
CPU = replace(
    MOCK_TARGET,
    backend="opencl",
    kind=DeviceKind.CPU,
    arch="x86-64-avx512",
    identity="",
)


@pytest.fixture
def takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take also what other families are expected to compute faster: small problems."""
    for kind in KINDS:
        monkeypatch.setattr(kind, "direct_share", 0.0)


def problem_for(
    solver: CpuSolver, x: tuple[int, ...], filters: int, window: tuple[int, ...], **options: Any
) -> ConvProblem:
    """A problem that a solver takes, unless the options say otherwise."""
    groups = options.get("groups", 1)
    options.setdefault("layout", Layout.NHWC if solver.channels_last else Layout.NCHW)
    w = (filters, x[1] // groups, *window)
    return ConvProblem.create(options.pop("direction", solver.direction), x, w, **options)


def small_problem(solver: CpuSolver, **options: Any) -> ConvProblem:
    """A small one."""
    if isinstance(solver, DEPTHWISE):
        return problem_for(solver, (2, 19, 21, 18), 19, (7, 13), groups=19, padding=3, **options)
    return problem_for(solver, (2, 5, 21, 18), 7, (7, 9), padding=3, **options)


def shapes_for(solver: CpuSolver) -> list[ConvProblem]:
    """Problems that tiles of 16 serve best: edges, scaling, groups."""
    uneven = {"padding": ((0, 3), (5, 1)), "alpha": 0.5, "beta": 2.0}
    if isinstance(solver, DEPTHWISE):
        return [
            small_problem(solver),
            problem_for(solver, (1, 3, 12, 40), 3, (13, 7), groups=3, **uneven),
            problem_for(solver, (5, 33, 9, 9), 33, (9, 9), groups=33),
        ]
    return [
        small_problem(solver),
        problem_for(solver, (1, 18, 22, 30), 40, (5, 5), padding=2),
        problem_for(solver, (2, 4, 9, 40), 4, (5, 11), **uneven),
        problem_for(solver, (1, 9, 12, 12), 12, (5, 5), groups=3, padding=9),
    ]


@pytest.mark.usefixtures("takes_all")
@each_solver
def test_the_conformance_kit_finds_nothing(solver: CpuSolver, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    shapes = shapes_for(solver)
    report = check_solver(solver, device, shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize(
    ("solver_id", "size"),
    [
        ("fft-cpu-nhwc-bwd-data", 24),
        ("fft-depthwise-cpu-nchw-bwd-data", 32),
        ("fft-cpu-nchw-fwd", 48),
    ],
)
def test_larger_tiles(solver_id: str, size: int, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    solver = next(s for s in SOLVERS if s.solver_id == solver_id)
    problem = small_problem(solver)
    first, second = random_data(problem, 1)
    config = solver.default_config(problem, device.target).replace(tile=size)
    result = _run(solver, problem, device, {}, first, second, config)
    _check(solver, problem, result, first, second)


@pytest.mark.parametrize("solver_id", ["fft-cpu-nchw-fwd", "fft-depthwise-cpu-nhwc-bwd-data"])
def test_errors_stay_in_the_stated_bound(solver_id: str, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    solver = next(s for s in SOLVERS if s.solver_id == solver_id)
    loaded: dict[Program, object] = {}
    for channels in (3, 96):
        for distribution in get_args(Distribution):
            groups, filters = 1, 3
            if isinstance(solver, DEPTHWISE):
                groups = filters = channels
            x, window = (1, channels, 30, 25), (9, 9)
            problem = problem_for(solver, x, filters, window, groups=groups, padding=4)
            first, second = random_data(problem, 1, distribution)
            config = solver.default_config(problem, device.target).replace(tile=SIZES[-1])
            result = _run(solver, problem, device, loaded, first, second, config)
            _check(solver, problem, result, first, second)


def _check(solver: CpuSolver, problem: ConvProblem, result: Any, first: Any, second: Any) -> None:
    magnitude = spread_magnitude(
        reference_magnitude(problem, first, second),
        solver.error_reach(problem),
        channels_last=solver.channels_last,
    )
    error = measure_error(result, reference_convolution(problem, first, second), magnitude)
    bound = error_bound(problem, solver.error_bound(problem))
    assert check_error(error, bound), f"{problem.key}: {error} over {bound}"


def _run(
    solver: TunableSolver,
    problem: ConvProblem,
    device: Device,
    loaded: dict[Program, object],
    first: Any,
    second: Any,
    config: Config,
) -> Any:
    recipe = solver.solution(problem, device.target, config)
    for program in recipe.programs:
        if program not in loaded:
            loaded[program] = device.load(program, device.compile(program))
    buffers: dict[str, Any] = {
        name: device.upload(np.ascontiguousarray(array))
        for name, array in zip(problem.direction.reads, (first, second), strict=True)
    }
    writes = problem.direction.writes
    buffers[writes] = device.allocate(problem.nbytes(writes))
    if recipe.total_workspace:
        buffers["workspace"] = device.allocate(recipe.total_workspace)
    device.invoker(recipe.unbound_steps, loaded)(InvokeArgs(**buffers))
    layout = problem.tensor_layout(writes)
    result = np.empty(layout.to_memory(problem.shape(writes)), np.float32)
    device.read(buffers[writes], result)
    return result


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"stride": 2}, Reason.STRIDE),
        ({"dilation": 2}, Reason.DILATION),
        ({"dtype": DataType.FLOAT16}, Reason.DTYPE),
        ({"layout": Layout.NHWC}, Reason.LAYOUT),
        ({"direction": Direction.BACKWARD_DATA}, Reason.DIRECTION),
        ({"accuracy": AccuracyClass.STRICT}, Reason.ACCURACY),
    ],
)
def test_what_is_refused(options: dict[str, Any], reason: Reason) -> None:
    solver = next(s for s in SOLVERS if s.solver_id == "fft-cpu-nchw-fwd")
    answer = solver.takes(small_problem(solver, **options), CPU)
    assert isinstance(answer, Rejected)
    assert answer.reason is reason


@pytest.mark.parametrize(
    ("solver_id", "image", "channels", "window", "taken"),
    [
        ("fft-cpu-nchw-fwd", 56, 64, 3, False),
        ("fft-cpu-nchw-fwd", 56, 64, 5, True),
        ("fft-cpu-nchw-fwd", 56, 3, 5, False),
        ("fft-cpu-nchw-bwd-weights", 56, 64, 7, True),
        ("fft-cpu-nchw-fwd", 99, 64, 61, True),
        ("fft-cpu-nchw-fwd", 99, 64, 62, False),
        ("fft-depthwise-cpu-nchw-fwd", 28, 128, 7, False),
        ("fft-depthwise-cpu-nchw-fwd", 28, 128, 9, True),
        ("fft-depthwise-cpu-nchw-fwd", 56, 128, 7, False),
        ("fft-depthwise-cpu-nchw-fwd", 56, 128, 15, True),
        ("fft-depthwise-cpu-nchw-fwd", 14, 512, 27, True),
        ("fft-depthwise-cpu-nchw-fwd", 7, 1024, 13, False),
        ("fft-depthwise-cpu-nchw-bwd-weights", 28, 128, 7, False),
        ("fft-depthwise-cpu-nchw-bwd-weights", 28, 128, 15, True),
    ],
)
def test_what_other_families_compute_faster_is_left_to_them(
    solver_id: str, image: int, channels: int, window: int, taken: bool
) -> None:
    solver = next(s for s in SOLVERS if s.solver_id == solver_id)
    groups = channels if isinstance(solver, DEPTHWISE) else 1
    x, w = (2, channels, image, image), (window, window)
    problem = problem_for(solver, x, channels, w, groups=groups, padding=window // 2)
    assert bool(solver.takes(problem, CPU)) is taken


@pytest.mark.usefixtures("takes_all")
def test_a_dilation_along_which_there_is_one_tap_changes_nothing() -> None:
    for solver in SOLVERS:
        if isinstance(solver, DEPTHWISE):
            continue  # 81 taps in a row fit no tile
        usual = problem_for(solver, (2, 8, 10, 100), 8, (1, 25), padding=(0, 12))
        spaced = replace(usual, dilation=(3, 1))
        assert solver.takes(spaced, CPU)
        assert solver.solution(spaced, CPU) == solver.solution(usual, CPU)


def test_parts_need_less_memory() -> None:
    solver = next(s for s in SOLVERS if s.solver_id == "fft-cpu-nchw-fwd")
    problem = problem_for(solver, (8, 32, 64, 64), 32, (9, 9), padding=4)
    whole = solver.solution(problem, CPU)
    limit = whole.packed + (1 << 20)
    parts = solver.solution(problem, CPU, workspace_limit=limit)
    assert parts.total_workspace <= limit < whole.total_workspace
    assert len(parts.steps) > len(whole.steps)


def test_no_gpu_is_taken() -> None:
    solver = SOLVERS[0]
    gpu = replace(CPU, kind=DeviceKind.GPU, identity="")
    answer = solver.takes(small_problem(solver), gpu)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.DEVICE_KIND
