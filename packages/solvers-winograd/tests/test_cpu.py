"""The Winograd solvers for CPUs keep the contract and their error bounds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices_for_tests import mostly_as_written, on_cpu
from drawn_shapes import assert_drawn
from hypothesis import strategies as st

from convfind.checking.accuracy import check_error, error_bound, measure_error, spread_magnitude
from convfind.checking.random_data import random_data
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.device.target import DeviceKind
from convfind.handle.opening import handle_for
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device, InvokeArgs
from convfind.settings import Settings
from convfind.solver.applicability import Rejected
from convfind.testing import MOCK_TARGET, MockBackend, check_solver, fused
from convfind.types import AccuracyClass, DataType, Direction, Layout
from convfind_solvers_winograd import hooks
from convfind_solvers_winograd.cpu import CpuSolver
from convfind_solvers_winograd.cpu_groups import CpuGroupsSolver
from convfind_solvers_winograd.cpu_volumes import CpuVolumeSolver
from convfind_solvers_winograd.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

CPU_SOLVERS = [s for s in solvers() if isinstance(s, CpuSolver)]
OF_FEW_SHAPES = CpuVolumeSolver | CpuGroupsSolver
SOLVERS = {s.solver_id: s for s in CPU_SOLVERS if not isinstance(s, OF_FEW_SHAPES)}
VOLUMES = {s.solver_id: s for s in CPU_SOLVERS if isinstance(s, CpuVolumeSolver)}
GROUPS = {s.solver_id: s for s in CPU_SOLVERS if isinstance(s, CpuGroupsSolver)}
_OF_PLANES = {s.transform for s in SOLVERS.values() if s.axes == 2}
#: Transforms that take long to compile.
_MANY_POINTS = 64
#: Each transform of stride 1 in both layouts, which have kernels of their own, but not in each
#: direction, the large ones only forward, and along one axis only if it is not used along both.
ALL_KERNELS = [
    name
    for name, s in SOLVERS.items()
    if s.channels_last is (s.direction is not Direction.FORWARD)
    and s.axes == (2 if s.transform in _OF_PLANES else 1)
    and not s.transform.spread
    and (s.points < _MANY_POINTS or s.direction is Direction.FORWARD)
]
#: One of each kernel, which all the others share: for what takes long.
SOME = (
    "winograd-f4x3-cpu-nchw-bwd-data",
    "winograd-f4x3-cpu-nhwc-fwd-inline",
    "winograd-f6x3-cpu-nchw-fwd",
    "winograd-f3x4-cpu-nhwc-bwd-weights",
    "winograd-f4x7-1d-cpu-nchw-fwd",
    "winograd-f5x4-cpu-nchw-bwd-weights",
)
STRIDED = (
    "winograd-f4x3-s2-cpu-nhwc-fwd-inline",
    "winograd-f8x3-s2-cpu-nchw-bwd-data",
    "winograd-f3x2-s2-cpu-nhwc-bwd-weights",
)
DILATED = (
    "winograd-f4x3-cpu-nchw-fwd",
    "winograd-f4x3-cpu-nhwc-bwd-data-inline",
    "winograd-f3x4-cpu-nchw-bwd-weights",
)
LAYOUTS = {
    (4, True): Layout.NHWC,
    (4, False): Layout.NCHW,
    (5, True): Layout.NDHWC,
    (5, False): Layout.NCDHW,
}
CPU = replace(MOCK_TARGET, backend="opencl", kind=DeviceKind.CPU, identity="")


def each(ids: Collection[str]) -> pytest.MarkDecorator:
    named = [(SOLVERS | VOLUMES | GROUPS)[name] for name in ids]
    return pytest.mark.parametrize("solver", named, ids=list(ids))


def windows(solver: CpuSolver) -> list[tuple[int, int]]:
    """Return the sizes of filters that a solver takes."""
    of_weights = solver.direction is Direction.BACKWARD_WEIGHTS
    taps = solver.transform.m if of_weights else solver.transform.r
    return [(taps, taps)] if solver.axes == 2 else [(1, taps), (taps, 1)]


def problem_for(solver: CpuSolver, x: tuple[int, ...], filters: int, **options: Any) -> ConvProblem:
    """A problem that a solver takes, unless the options say otherwise."""
    groups = options.get("groups", 1)
    options.setdefault("layout", LAYOUTS[len(x), solver.channels_last])
    options.setdefault("accuracy", AccuracyClass.RELAXED)
    options.setdefault("stride", 2 if solver.transform.spread else 1)
    w = (filters, x[1] // groups, *options.pop("window", windows(solver)[0]))
    return ConvProblem.create(options.pop("direction", solver.direction), x, w, **options)


@each(ALL_KERNELS)
def test_the_conformance_kit_finds_nothing(solver: CpuSolver, convfind_device: Device) -> None:
    shapes = [
        problem_for(solver, (1, 16, 8, 8), 16, padding=1),
        problem_for(solver, (2, 5, 9, 7), 3, padding=1),
        problem_for(solver, (1, 1, *windows(solver)[0]), 1),
        problem_for(solver, (2, 70, 11, 13), 70, padding=(2, 0)),
        problem_for(solver, (1, 70, 5, 31), 70, padding=((0, 2), (3, 1)), alpha=0.5, beta=2.0),
        problem_for(solver, (2, 12, 11, 10), 8, padding=1, groups=4),
        problem_for(solver, (1, 7, 6, 6), 7, padding=1, groups=7),
        problem_for(solver, (1, 3, 4, 4), 2, padding=9),
    ]
    for window in windows(solver)[1:]:
        shapes += [
            problem_for(solver, (2, 5, 9, 7), 3, padding=1, window=window),
            problem_for(solver, (3, 70, 13, 17), 70, padding=(2, 0), window=window),
            problem_for(solver, (1, 4, 7, 70), 20, window=window, groups=2, alpha=0.5, beta=2.0),
        ]
    device = mostly_as_written(on_cpu(convfind_device))
    report = check_solver(solver, device, shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)


@each(STRIDED)
def test_stride_2(solver: CpuSolver, convfind_device: Device) -> None:
    shapes = [
        problem_for(solver, (2, 5, 9, 7), 3, padding=1),
        problem_for(solver, (3, 36, 29, 34), 70, padding=1),
        problem_for(solver, (1, 40, 13, 31), 66, padding=((1, 0), (3, 2)), alpha=0.5, beta=2.0),
        problem_for(solver, (2, 12, 11, 10), 8, padding=1, groups=4),
        problem_for(solver, (1, 3, 3, 4), 2, padding=9),
    ]
    if solver.direction is not Direction.BACKWARD_DATA:
        shapes += [
            problem_for(solver, (1, 1, 3, 3), 1),
            problem_for(solver, (1, 6, 40, 33), 8, padding=((0, 1), (2, 0))),
        ]
    report = check_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)


def volume(solver: CpuSolver, x: tuple[int, ...], filters: int, **options: Any) -> ConvProblem:
    return problem_for(solver, x, filters, **{"window": (3, 3, 3), **options})


@each(("winograd-f4x3-3d-cpu-nhwc-fwd", "winograd-f4x3-3d-cpu-nchw-bwd-data"))
def test_volumes(solver: CpuSolver, convfind_device: Device) -> None:
    shapes = [
        volume(solver, (1, 16, 6, 8, 8), 16, padding=1),
        volume(solver, (2, 5, 7, 9, 7), 3, padding=1),
        volume(solver, (1, 1, 3, 3, 3), 1),
        volume(solver, (2, 70, 5, 11, 13), 70, padding=(1, 2, 0)),
        volume(solver, (1, 70, 9, 5, 31), 6, padding=((2, 0), (0, 2), (3, 1)), beta=2.0),
        volume(solver, (2, 12, 4, 11, 10), 8, padding=1, groups=4, alpha=0.5),
        volume(solver, (1, 3, 4, 4, 4), 2, padding=9),  # whole planes of results meet zeros alone
        volume(solver, (1, 20, 20, 9, 10), 18, padding=2, dilation=2),
        volume(solver, (1, 20, 3, 9, 10), 18, window=(1, 3, 3), padding=(0, 1, 1)),
        volume(solver, (2, 33, 17, 14, 15), 40, window=(2, 3, 3), dilation=(16, 1, 1)),
        volume(solver, (1, 40, 21, 14, 15), 33, window=(5, 3, 3), padding=(2, 1, 1)),
    ]
    shapes += [fused(problem) for problem in shapes[1:3]]
    report = check_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"window": (3, 1, 3)}, Reason.FILTER_SIZE),
        ({"window": (18, 3, 3)}, Reason.FILTER_SIZE),
        ({"dilation": (9, 1, 1)}, Reason.FILTER_SIZE),
        ({"stride": (2, 1, 1)}, Reason.STRIDE),
    ],
)
def test_volumes_that_are_refused(options: dict[str, Any], reason: Reason) -> None:
    solver = VOLUMES["winograd-f4x3-3d-cpu-nhwc-fwd"]
    answer = solver.takes(volume(solver, (1, 16, 20, 16, 16), 16, **options), CPU)
    assert isinstance(answer, Rejected)
    assert answer.reason is reason


@each(VOLUMES)
def test_the_default_config_of_volumes_is_legal(solver: CpuSolver) -> None:
    for channels, planes, apart in ((1, 1, 1), (16, 3, 1), (33, 17, 8), (512, 64, 1)):
        x = (1, channels, planes + 2 * apart, 16, 16)
        problem = volume(solver, x, channels, dilation=(apart, 1, 1))
        config = solver.default_config(problem, CPU)
        assert config in solver.search_space(problem, CPU)


@each(GROUPS)
def test_groups(solver: CpuSolver, convfind_device: Device) -> None:
    shapes = [
        problem_for(solver, (1, 48, 9, 7), 48, padding=1, groups=2),
        problem_for(solver, (5, 120, 7, 7), 120, padding=1, groups=5),  # runs over several images
        problem_for(solver, (1, 24, 3, 3), 24),  # fewer tiles than a register tile has
        problem_for(solver, (1, 24, 10, 90), 24, padding=((0, 2), (3, 1)), alpha=0.5, beta=2.0),
        problem_for(solver, (2, 16, 11, 13), 48, padding=(2, 0), groups=2),
        problem_for(solver, (1, 96, 6, 6), 32, padding=3, groups=2),
        problem_for(solver, (3, 40, 14, 14), 40, padding=1),
        problem_for(solver, (2, 64, 8, 9), 64, padding=1),
        problem_for(solver, (1, 24, 4, 4), 24, padding=9),
    ]
    shapes += [fused(problem) for problem in shapes[:3]]
    shapes += [replace(problem, add_last=not problem.add_last) for problem in shapes[-3:-1]]
    report = check_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)


PITCHED = (
    "winograd-f4x3-cpu-nhwc-fwd",
    "winograd-f2x3-cpu-nhwc-fwd-inline",
    "winograd-f4x3-cpu-nhwc-bwd-data-inline",
    *GROUPS,
)


@each(PITCHED)
def test_results_among_the_channels_of_a_larger_tensor(
    solver: CpuSolver, convfind_device: Device
) -> None:
    def problem_of(*shape: int, filters: int, pitch: int, **options: Any) -> ConvProblem:
        problem = problem_for(solver, shape, filters, padding=1, **options)
        _, _, height, width = problem.shape(problem.direction.writes)
        steps = (height * width * pitch, 1, width * pitch, pitch)
        if problem.direction is Direction.FORWARD:
            return replace(problem, y_strides=steps)
        return replace(problem, x_strides=steps)

    shapes = [
        problem_of(2, 16, 9, 7, filters=24, pitch=40),
        problem_of(1, 64, 13, 6, filters=64, pitch=192, bias=True, activation="relu"),
        problem_of(2, 48, 6, 6, filters=48, pitch=50, groups=2, add=True, beta=1.0),
    ]
    report = check_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize(
    ("channels", "options", "reason"),
    [
        (20, {}, Reason.CHANNELS),
        (72, {}, Reason.CHANNELS),
        (24, {"dilation": 2}, Reason.DILATION),
        (24, {"stride": 2}, Reason.STRIDE),
        (24, {"window": (5, 5)}, Reason.FILTER_SIZE),
    ],
)
def test_groups_that_are_refused(channels: int, options: dict[str, Any], reason: Reason) -> None:
    solver = GROUPS["winograd-f4x3-cpu-nhwc-fwd-groups"]
    x = (1, 2 * channels, 20, 20)
    answer = solver.takes(problem_for(solver, x, 2 * channels, groups=2, **options), CPU)
    assert isinstance(answer, Rejected)
    assert answer.reason is reason


@each(GROUPS)
def test_the_default_config_of_groups_is_legal(solver: CpuSolver) -> None:
    for channels, filters in ((8, 8), (24, 24), (64, 64), (8, 64), (64, 8)):
        problem = problem_for(solver, (4, 4 * channels, 14, 14), 4 * filters, groups=4, padding=1)
        config = solver.default_config(problem, CPU)
        assert config in solver.search_space(problem, CPU)


@each(("winograd-f2x3-cpu-nhwc-fwd-inline", "winograd-f2x3-cpu-nchw-bwd-data-inline"))
def test_float16(solver: CpuSolver, convfind_device: Device) -> None:
    half = DataType.FLOAT16
    shapes = [
        problem_for(solver, (1, 5, 9, 7), 3, padding=1, dtype=half),
        problem_for(solver, (2, 16, 11, 34), 13, padding=((0, 2), (3, 1)), dtype=half, beta=2.0),
        problem_for(solver, (1, 12, 8, 9), 16, padding=1, groups=2, dtype=half, alpha=0.5),
        problem_for(solver, (1, 1, 3, 3), 1, dtype=half),
    ]
    report = check_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)


def test_data_gradients_of_stride_2_are_for_odd_padding() -> None:
    solver = SOLVERS["winograd-f8x3-s2-cpu-nhwc-bwd-data"]
    assert solver.takes(problem_for(solver, (1, 16, 16, 16), 16, padding=1), CPU)
    answer = solver.takes(problem_for(solver, (1, 16, 16, 16), 16, padding=(1, 2)), CPU)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.PADDING


@each(DILATED)
def test_dilated_filters(solver: CpuSolver, convfind_device: Device) -> None:
    shapes = [
        problem_for(solver, (2, 5, 29, 37), 3, padding=1, dilation=2),
        problem_for(solver, (1, 20, 40, 71), 18, padding=(2, 5), dilation=(3, 1)),
        problem_for(solver, (1, 7, 33, 99), 5, padding=12, dilation=(1, 16), beta=2.0),
        problem_for(solver, (1, 16, 99, 98), 4, padding=((0, 1), (20, 3)), dilation=(16, 11)),
        problem_for(solver, (1, 6, 15, 16), 8, padding=((7, 1), (0, 3)), dilation=7, groups=2),
        problem_for(solver, (1, 3, 8, 9), 4, padding=8, dilation=2),
    ]
    report = check_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert len(report.problems) == len(shapes)


@st.composite
def problems(draw: st.DrawFn, solver: CpuSolver) -> ConvProblem:
    """Draw a problem of up to 16 channels and 32 filters a group, which share one program."""
    groups = draw(st.sampled_from((1, 1, 2)))
    pads = st.tuples(st.integers(0, 3), st.integers(0, 3))
    size, channels = st.integers(7, 22), st.integers(1, 16)
    return problem_for(
        solver,
        (draw(st.integers(1, 3)), groups * draw(channels), draw(size), draw(size)),
        groups * draw(channels),
        padding=(draw(pads), draw(pads)),
        window=draw(st.sampled_from(windows(solver))),
        groups=groups,
    )


@each(SOME)
def test_drawn_shapes(solver: CpuSolver, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)

    # Many at a time: each call of the kit compiles the kernels once.
    assert_drawn(solver, device, st.lists(problems(solver), min_size=10, max_size=20))


@each(SOME)
def test_errors_stay_in_the_stated_bound(solver: CpuSolver, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    shapes = {
        Direction.FORWARD: ((1, 2048, 14, 14), 4),
        Direction.BACKWARD_DATA: ((1, 4, 14, 14), 2048),
        Direction.BACKWARD_WEIGHTS: ((32, 20, 14, 14), 20),
    }
    problem = problem_for(solver, *shapes[solver.direction], padding=1)
    first, second = random_data(problem, 1, "wide")
    result = _run(solver, problem, device, first, second)
    magnitude = spread_magnitude(
        reference_magnitude(problem, first, second),
        solver.error_reach(problem),
        channels_last=solver.channels_last,
    )
    error = measure_error(result, reference_convolution(problem, first, second), magnitude)
    bound = error_bound(problem, solver.error_bound(problem))
    assert check_error(error, bound), f"{error} over {bound}"


@each(("winograd-f2x3-cpu-nchw-fwd-inline",))
def test_a_limit_keeps_data_from_being_transformed_ahead(
    solver: CpuSolver, convfind_device: Device
) -> None:
    device = on_cpu(convfind_device)
    problem = problem_for(solver, (1, 8, 8, 8), 70, padding=1)
    ahead = solver.solution(problem, device.target)
    needed = solver.workspace_size(problem, device.target)
    assert 0 < needed == ahead.workspace
    limit = needed - 1
    assert solver.workspace_size(problem, device.target, limit) == 0
    assert len(solver.solution(problem, device.target, workspace_limit=limit).steps) == 1
    first, second = random_data(problem, 1)
    results = [_run(solver, problem, device, first, second, limit) for limit in (None, limit)]
    np.testing.assert_array_equal(*results)


def test_packed_weights_count_for_the_limit() -> None:
    solver = SOLVERS["winograd-f4x3-cpu-nhwc-fwd"]
    problem = problem_for(solver, (1, 8, 16, 16), 70, padding=1)
    both = solver.solution(problem, CPU)
    assert both.workspace
    assert solver.workspace_size(problem, CPU) == both.total_workspace
    one = solver.solution(problem, CPU, workspace_limit=both.total_workspace - 1)
    assert one.workspace == 0
    assert one.packed == both.packed


@pytest.mark.parametrize("direction", Direction)
def test_few_channels_or_filters_have_a_low_index(direction: Direction) -> None:
    solver = next(
        s
        for name, s in SOLVERS.items()
        if s.direction is direction and name.startswith(("winograd-f4x3-cpu", "winograd-f3x4-cpu"))
    )

    def index(channels: int, filters: int) -> float:
        problem = problem_for(solver, (4, channels, 56, 56), filters, padding=1)
        return solver.wti(problem, CPU) or 0.0

    assert index(64, 64) > 1.0
    assert 0.0 < index(3, 64) < 0.5
    assert 0.0 < index(64, 3) < 0.5


def _run(
    solver: CpuSolver,
    problem: ConvProblem,
    device: Device,
    first: Any,
    second: Any,
    workspace_limit: int | None = None,
) -> Any:
    recipe = solver.solution(problem, device.target, workspace_limit=workspace_limit)
    loaded = {p: device.load(p, device.compile(p)) for p in recipe.programs}
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
        ({"window": (1, 3)}, Reason.FILTER_SIZE),
        ({"dilation": 17, "padding": 17}, Reason.DILATION),
        ({"dilation": 16, "padding": 16}, Reason.PADDING),  # the outer taps meet zeros alone
        ({"dtype": DataType.FLOAT16}, Reason.DTYPE),
        ({"layout": Layout.NCHW}, Reason.LAYOUT),
        ({"direction": "backward-weights"}, Reason.DIRECTION),
        ({"accuracy": AccuracyClass.STRICT}, Reason.ACCURACY),
    ],
)
def test_what_is_refused(options: dict[str, Any], reason: Reason) -> None:
    solver = SOLVERS["winograd-f4x3-cpu-nhwc-fwd"]
    answer = solver.takes(problem_for(solver, (1, 16, 16, 16), 16, **options), CPU)
    assert isinstance(answer, Rejected)
    assert answer.reason is reason


def test_large_tiles_need_a_relaxed_accuracy() -> None:
    solver = SOLVERS["winograd-f6x3-cpu-nhwc-fwd"]
    relaxed = problem_for(solver, (1, 16, 16, 16), 16)
    assert solver.takes(relaxed, CPU)
    answer = solver.takes(replace(relaxed, accuracy=AccuracyClass.NORMAL), CPU)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.ACCURACY
    assert "accuracy=relaxed" in answer.detail


def test_explain_says_why_a_tight_tolerance_refuses(tmp_path: Path) -> None:
    registry = Registry.build([hooks], load_entry_points=False)
    problem = problem_for(
        SOLVERS["winograd-f4x3-cpu-nhwc-fwd"], (1, 16, 16, 16), 16, accuracy=AccuracyClass.STRICT
    )
    device = MockBackend(devices=(CPU,)).open()
    with handle_for(device, registry, Settings(user_db_path=tmp_path)) as handle:
        rows = {row.solver: row for row in handle.explain(problem).rows}
    refused = rows["winograd-f4x3-cpu-nhwc-fwd"].applicability
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.ACCURACY
    assert "accuracy=strict" in refused.detail


def test_no_gpu_is_taken() -> None:
    solver = next(iter(SOLVERS.values()))
    gpu = replace(CPU, kind=DeviceKind.GPU, identity="")
    answer = solver.takes(problem_for(solver, (1, 16, 16, 16), 16), gpu)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.DEVICE_KIND


@each(SOLVERS)
def test_the_default_config_is_legal(solver: CpuSolver) -> None:
    for channels in (1, 16, 33, 512):
        problem = problem_for(solver, (1, channels, 16, 16), channels)
        config = solver.default_config(problem, CPU)
        assert config in solver.search_space(problem, CPU)
