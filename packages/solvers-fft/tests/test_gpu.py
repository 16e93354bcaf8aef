"""The FFT solvers for GPUs, run on whatever device there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import devices_for_tests
import pytest
from devices_for_tests import PLAIN_GPU

from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import check_solver
from convfind.types import Direction, Layout
from convfind_solvers_fft.gpu import GpuSolver
from convfind_solvers_fft.gpu_depthwise import GpuDepthwise
from convfind_solvers_fft.solver_list import gpu_solvers

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [solver for solver in gpu_solvers() if isinstance(solver, GpuSolver)]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


@pytest.fixture(scope="session")
def as_gpu(convfind_device: Device) -> Device:
    """The device as if it were a GPU, whatever it is."""
    return devices_for_tests.as_gpu(convfind_device)


def problem_for(
    solver: GpuSolver, x: tuple[int, ...], filters: int, window: tuple[int, ...], **options: Any
) -> ConvProblem:
    """A problem that a solver takes, unless the options say otherwise."""
    w = (filters, x[1] // options.get("groups", 1), *window)
    options.setdefault("layout", Layout.NHWC if solver.channels_last else Layout.NCHW)
    return ConvProblem.create(options.pop("direction", solver.direction), x, w, **options)


def shapes_for(solver: GpuSolver) -> list[ConvProblem]:
    """Problems at the edges; one of larger tiles, which compile for long, and for one solver."""
    uneven = {"padding": ((0, 3), (5, 1)), "alpha": 0.5, "beta": 2.0}
    if isinstance(solver, GpuDepthwise):
        shapes = [
            problem_for(solver, (2, 11, 14, 37), 11, (9, 9), groups=11, padding=4),
            problem_for(solver, (3, 9, 7, 7), 9, (9, 11), groups=9, **uneven),
        ]
        if solver.solver_id == "fft-depthwise-gpu-nchw-fwd":
            shapes.append(problem_for(solver, (1, 2, 40, 33), 2, (31, 25), groups=2, padding=15))
        return shapes
    shapes = [
        problem_for(solver, (2, 5, 19, 13), 7, (5, 5), padding=2),
        problem_for(solver, (2, 4, 9, 40), 4, (7, 11), **uneven),
        problem_for(solver, (2, 9, 11, 10), 12, (5, 7), padding=2, groups=3),
    ]
    if not solver.channels_last and solver.direction is not Direction.BACKWARD_DATA:
        shapes.append(problem_for(solver, (1, 40, 41, 30), 36, (9, 9), padding=4))
    return shapes


@each_solver
def test_the_conformance_kit_finds_nothing(solver: GpuSolver, as_gpu: Device) -> None:
    shapes = shapes_for(solver)
    report = check_solver(solver, as_gpu, shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize(
    ("layer", "tile"),
    [
        ((32, 128, 46, 128, 11), 24),
        ((32, 128, 92, 128, 9), 32),
        ((32, 64, 256, 32, 5), 24),
        ((1, 128, 46, 128, 11), 16),
    ],
)
def test_the_default_tile_is_the_quickest_on_an_h200(layer: tuple[int, ...], tile: int) -> None:
    images, channels, size, filters, window = layer
    solver = next(s for s in SOLVERS if s.solver_id == "fft-gpu-nchw-fwd")
    x = (images, channels, size, size)
    problem = problem_for(solver, x, filters, (window, window), padding=window // 2)
    assert solver.takes(problem, PLAIN_GPU)
    config = solver.default_config(problem, PLAIN_GPU)
    assert config.integer("tile") == tile
    assert config in solver.search_space(problem, PLAIN_GPU)


@pytest.mark.parametrize(
    ("change", "options", "reason"),
    [
        ({"kind": DeviceKind.CPU}, {}, Reason.DEVICE_KIND),
        ({"local_memory": 8 * 1024}, {}, Reason.LOCAL_MEMORY),
        ({}, {"layout": Layout.NHWC}, Reason.LAYOUT),
        ({}, {"stride": 2}, Reason.STRIDE),
    ],
)
def test_what_is_refused(change: dict[str, Any], options: dict[str, Any], reason: Reason) -> None:
    solver = next(s for s in SOLVERS if s.solver_id == "fft-gpu-nchw-fwd")
    problem = problem_for(solver, (2, 8, 30, 30), 8, (9, 9), padding=4, **options)
    answer = solver.takes(problem, replace(PLAIN_GPU, identity="", **change))
    assert isinstance(answer, Rejected)
    assert answer.reason is reason


def test_dense_filters_fit_a_tile_in_local_memory() -> None:
    solver = next(s for s in SOLVERS if s.solver_id == "fft-gpu-nchw-fwd")
    problem = problem_for(solver, (2, 8, 60, 60), 8, (31, 31), padding=15)
    answer = solver.takes(problem, PLAIN_GPU)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.FILTER_SIZE


def test_a_dilation_along_which_there_is_one_tap_changes_nothing() -> None:
    for solver in SOLVERS:
        if isinstance(solver, GpuDepthwise):
            continue  # 81 taps in a row fit no tile
        usual = problem_for(solver, (2, 8, 10, 100), 8, (1, 25), padding=(0, 12))
        spaced = replace(usual, dilation=(3, 1))
        assert solver.takes(spaced, PLAIN_GPU)
        assert solver.solution(spaced, PLAIN_GPU) == solver.solution(usual, PLAIN_GPU)


@each_solver
def test_parts_need_less_memory(solver: GpuSolver) -> None:
    groups = 32 if isinstance(solver, GpuDepthwise) else 1
    problem = problem_for(solver, (8, 32, 64, 64), 32, (9, 9), padding=4, groups=groups)
    whole = solver.solution(problem, PLAIN_GPU)
    assert whole.total_workspace == solver.workspace_size(problem, PLAIN_GPU)
    if whole.workspace:
        limit = whole.total_workspace // 2
        parts = solver.solution(problem, PLAIN_GPU, workspace_limit=limit)
        assert parts.total_workspace <= limit
