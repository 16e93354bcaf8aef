"""The solvers for last layers on GPUs keep the contract, also on drawn shapes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from devices_for_tests import H200, PLAIN_GPU, as_small_gpu
from drawn_shapes import assert_drawn, legal
from hypothesis import strategies as st

from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver import Solver
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import Recipe
from convfind.testing import assert_solver, edge_cases
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu.last import GpuLast
from convfind_solvers_direct.gpu.last_tile import is_rolled
from convfind_solvers_direct.naive import NaiveSolver
from convfind_solvers_direct.solver_list import solvers
from convfind_solvers_direct.window import window

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [GpuLast(direction) for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


def problem_of(
    solver: GpuLast,
    images: int,
    channels: int,
    size: tuple[int, ...],
    results: int,
    taps: tuple[int, ...],
    **options: object,
) -> ConvProblem:
    """A problem with images of x of a size, that sums over ``channels`` for ``results``."""
    c, k = channels, results
    if solver.direction is Direction.BACKWARD_DATA:
        c, k = k, c
    x, w = (images, c, *size), (k, c, *taps)
    return ConvProblem.create(solver.direction, x, w, **options)  # type: ignore[arg-type]


class Other(GpuLast):
    """Rarer choices: eight columns, teams and parts, most rows of those that fit."""

    @cache  # noqa: B019 - the solvers of a test
    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        def preference(config: Config) -> tuple[int, ...]:
            return (
                config.integer("columns"),
                -abs(config.integer("parts") - 2) - abs(config.integer("teams") - 2),
                config.integer("depth"),
                config.integer("rows"),
                -config.integer("across") * config.integer("down"),
            )

        return max(self.search_space(problem, target), key=preference)


class Limited(GpuLast):
    """What a limit of the workspace leaves room for."""

    most = 0

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        return super().workspace_size(problem, target, self._least(limit))

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        return super().solution(problem, target, config, self._least(workspace_limit))

    def _least(self, limit: int | None) -> int:
        return self.most if limit is None else min(limit, self.most)


def shapes(solver: GpuLast) -> list[ConvProblem]:
    """Channels that end within a set, row lengths that are multiples of 4 or not, one row, one
    tap, more zeros than a filter reaches, loops over the filter's rows.
    """
    return [
        problem_of(solver, 2, 20, (29, 36), 3, (3, 3), padding=1, alpha=0.5, beta=2.0),
        problem_of(solver, 1, 19, (17, 31), 4, (5, 5), padding=2, beta=1.0),
        problem_of(solver, 2, 8, (40, 24), 1, (9, 9), padding=4),
        problem_of(solver, 2, 9, (23, 20), 3, (9, 9), padding=((0, 5), (3, 4))),
        problem_of(solver, 2, 7, (30, 24), 4, (11, 14), padding=(5, 3)),
        problem_of(solver, 1, 9, (13, 20), 2, (3, 3), padding=4, alpha=2.0),
        problem_of(solver, 1, 100, (16, 12), 2, (1, 1)),
        problem_of(solver, 3, 64, (9, 30), 2, (2, 3)),
        problem_of(solver, 2, 16, (50,), 3, (5,), padding=2),
        problem_of(solver, 2, 5, (1, 1), 4, (1, 1)),
    ]


@pytest.mark.parametrize("kind", [GpuLast, Other])
@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_DATA])
def test_edges_of_tiles(kind: type[GpuLast], direction: Direction, convfind_device: Device) -> None:
    solver = kind(direction)
    of_it = shapes(solver)
    device = as_small_gpu(convfind_device)
    report = assert_solver(solver, device, shapes=of_it, every_variant=False)
    assert len(report.problems) == len(of_it)
    configs = [solver.default_config(problem, device.target) for problem in of_it]
    for name in ("teams", "parts"):
        assert max(config.integer(name) for config in configs) > 1


@each_solver
def test_edge_cases(solver: GpuLast, convfind_device: Device) -> None:
    device = as_small_gpu(convfind_device)
    cases = [case.plain().with_direction(solver.direction) for case in edge_cases()]
    taken = [case for case in cases if solver.takes(case, device.target)]
    assert taken
    assert assert_solver(solver, device, shapes=taken, every_variant=False).problems


@st.composite
def problems(draw: st.DrawFn, solver: GpuLast) -> list[ConvProblem]:
    """Draw a window, and problems with it."""
    taps = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    results, width = draw(st.integers(1, 4)), draw(st.integers(1, 70))
    padding = tuple((draw(st.integers(0, 9)), draw(st.integers(0, 9))) for _ in range(2))

    def one() -> ConvProblem:
        images, channels, height = (draw(st.integers(*of)) for of in ((1, 3), (5, 40), (1, 40)))
        beta = draw(st.sampled_from((0.0, 2.0)))
        return problem_of(
            solver,
            *(images, channels, (height, width), results, taps),
            padding=padding,
            beta=beta,
        )

    return legal(one, 3)


@each_solver
def test_drawn_shapes(solver: GpuLast, convfind_device: Device) -> None:
    device = as_small_gpu(convfind_device)
    assert_drawn(solver, device, problems(solver), examples=4)


LAYERS = [
    (4, 128, 512, 3, 3),
    (64, 64, 224, 1, 9),
    (4, 320, 64, 4, 3),
    (8, 32, 256, 3, 9),
    (16, 32, 256, 3, 5),
    (8, 64, 256, 1, 1),
    (1, 512, 7, 4, 1),
    (2, 16, 100, 4, 15),
]


@each_solver
@pytest.mark.parametrize(
    "target",
    [
        H200,
        PLAIN_GPU,
        *(
            replace(PLAIN_GPU, identity="", compute_units=units, max_work_group=most)
            for units, most in ((8, 256), (104, 64), (1, 32))
        ),
    ],
)
def test_usual_tiles_are_legal(solver: GpuLast, target: Target) -> None:
    for images, channels, size, results, taps in LAYERS:
        problem = problem_of(
            solver, images, channels, (size, size), results, (taps, taps), padding=taps // 2
        )
        assert solver.takes(problem, target)
        assert solver.default_config(problem, target) in solver.search_space(problem, target)
        index = solver.wti(problem, target)
        assert index is not None
        assert 0.01 < index < 1


@pytest.mark.parametrize(
    ("layer", "chosen"),
    [
        ((4, 128, 512, 3, 3), {"rows": 4, "across": 32, "down": 4, "teams": 1, "depth": 2}),
        ((64, 64, 224, 1, 9), {"rows": 4, "across": 8, "down": 8, "teams": 1, "depth": 1}),
        ((8, 32, 256, 3, 9), {"rows": 2, "across": 32, "down": 8, "teams": 1, "depth": 1}),
        ((4, 64, 256, 3, 9), {"rows": 2, "across": 32, "down": 8, "teams": 1, "depth": 1}),
        ((4, 320, 64, 4, 3), {"rows": 4, "across": 16, "down": 2, "teams": 4, "parts": 8}),
        ((8, 64, 256, 1, 3), {"rows": 4, "across": 32, "down": 2, "teams": 2, "depth": 1}),
    ],
)
def test_tiles_that_were_quickest(layer: tuple[int, ...], chosen: dict[str, int]) -> None:
    images, channels, size, results, taps = layer
    problem = problem_of(
        SOLVERS[0], images, channels, (size, size), results, (taps, taps), padding=taps // 2
    )
    config = SOLVERS[0].default_config(problem, H200)
    assert config == Config({"columns": 4, "stages": 2, "depth": 1, "parts": 1, **chosen})
    assert not is_rolled(window(problem), config)


def test_stages_are_for_copies_that_run_on() -> None:
    problem = problem_of(SOLVERS[0], 4, 64, (64, 64), 4, (3, 3), padding=1)
    for target, stages in ((PLAIN_GPU, {1}), (H200, {2, 3})):
        space = SOLVERS[0].search_space(problem, target)
        assert {config.integer("stages") for config in space} == stages
        (launch, *_) = SOLVERS[0].solution(problem, target).programs
        assert dict(launch.defines)["ASYNC"] is (target is H200)


@each_solver
def test_a_limit_leaves_fewer_parts(solver: GpuLast) -> None:
    problem = problem_of(solver, 4, 320, (64, 64), 4, (3, 3), padding=1)
    config = solver.default_config(problem, H200)
    part = 4 * problem.elements(problem.direction.writes)
    assert config.integer("parts") == 8
    for limit, parts in ((None, 8), (8 * part, 8), (8 * part - 1, 7), (2 * part, 2), (0, 1)):
        solution = solver.solution(problem, H200, config, workspace_limit=limit)
        assert solution.workspace == (parts * part if parts > 1 else 0)
        assert solver.workspace_size(problem, H200, limit) == solution.workspace
        assert len(solution.steps) == (2 if parts > 1 else 1)


@pytest.mark.parametrize("limit", [0, 3 * 4 * 3 * 20 * 20])
def test_results_within_a_limit(limit: int, convfind_device: Device) -> None:
    device = as_small_gpu(convfind_device)
    solver = Limited(Direction.FORWARD)
    solver.most = limit
    problem = problem_of(solver, 1, 130, (20, 20), 3, (3, 3), padding=1, beta=2.0)
    assert solver.default_config(problem, device.target).integer("parts") > 3
    solution = solver.solution(problem, device.target)
    assert (solution.workspace > 0) is (limit > 0)
    assert solution.workspace <= limit
    assert assert_solver(solver, device, shapes=[problem], every_variant=False).problems


@each_solver
def test_it_ranks_before_the_last_resort(solver: GpuLast) -> None:
    last: Solver = (
        NaiveSolver(Direction.FORWARD)
        if solver is SOLVERS[0]
        else NaiveSolver(Direction.BACKWARD_DATA)
    )
    ids = [each.solver_id for each in solvers()]
    assert ids.index(solver.solver_id) < ids.index(last.solver_id)
    problem = problem_of(solver, 4, 128, (512, 512), 3, (3, 3), padding=1)
    index = solver.wti(problem, H200)
    assert index is not None
    # 195 us of 7.2 GFLOP were measured on an H200 forward, 0.55 of the peak.
    assert 0.5 < index < 0.6


@each_solver
def test_other_problems_and_devices_are_refused(solver: GpuLast) -> None:
    def problem(
        channels: int = 8, results: int = 3, taps: int = 3, **options: object
    ) -> ConvProblem:
        return problem_of(solver, 2, channels, (20, 20), results, (taps, taps), **options)

    small = problem()
    assert solver.takes(small, PLAIN_GPU)
    other = Direction.BACKWARD_WEIGHTS
    last = {f"{name}_layout": Layout.NHWC for name in "xwy"}
    half = DataType.FLOAT16
    for refused, device, reason in (
        (small, replace(PLAIN_GPU, identity="", kind=DeviceKind.CPU), Reason.DEVICE_KIND),
        (small, replace(PLAIN_GPU, identity="", max_work_group=16), Reason.WORK_GROUP),
        (small, replace(PLAIN_GPU, identity="", local_memory=32768), Reason.LOCAL_MEMORY),
        (small.with_direction(other), PLAIN_GPU, Reason.DIRECTION),
        (replace(small, dtype=half, y_dtype=half), PLAIN_GPU, Reason.DTYPE),
        (replace(small, **last), PLAIN_GPU, Reason.LAYOUT),  # type: ignore[arg-type]
        (problem(channels=4), PLAIN_GPU, Reason.CHANNELS),
        (problem(results=5), PLAIN_GPU, Reason.CHANNELS),
        (problem(taps=16), PLAIN_GPU, Reason.FILTER_SIZE),
        (problem(stride=2), PLAIN_GPU, Reason.STRIDE),
        (problem(dilation=2), PLAIN_GPU, Reason.DILATION),
        (
            ConvProblem.create(solver.direction, (1, 8, 9, 9), (8, 4, 3, 3), groups=2),
            PLAIN_GPU,
            Reason.GROUPS,
        ),
        (
            problem_of(solver, 1, 8, (8, 8, 8), 3, (3, 3, 3)),
            PLAIN_GPU,
            Reason.SPATIAL_RANK,
        ),
        (
            ConvProblem.create(
                solver.direction, (1, 6, 9, 9), (6, 6, 3, 3), x_strides=(600, 100, 10, 1)
            ),
            PLAIN_GPU,
            Reason.NON_PACKED,
        ),
    ):
        answer = solver.takes(refused, device)
        assert isinstance(answer, Rejected), refused
        assert answer.reason == reason


@each_solver
def test_the_kernel_compiles_alone(solver: GpuLast, convfind_device: Device) -> None:
    device = as_small_gpu(convfind_device)
    problem = problem_of(solver, 1, 8, (8, 8), 4, (3, 3))
    for program in solver.solution(problem, device.target).programs:
        if program.source.path.endswith("gpu_last.cl"):
            assert device.compile(replace(program, defines=()))
