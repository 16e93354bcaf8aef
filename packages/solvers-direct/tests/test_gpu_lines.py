"""The solvers of one channel a group for whole rows keep the contract and are right on edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import H200, PLAIN_GPU, as_small_gpu

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.testing import assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu.bands import BandsConv
from convfind_solvers_direct.gpu.lines import LinesConv

pytest_plugins = ["convfind.testing.fixtures"]

Walk = LinesConv | BandsConv
DIRECTIONS = (Direction.FORWARD, Direction.BACKWARD_DATA)
SOLVERS: list[Walk] = [kind(way) for kind in (LinesConv, BandsConv) for way in DIRECTIONS]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


def problem_of(
    solver: Walk, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    options = {"groups": x[1], **options}
    return ConvProblem.create(solver.direction, x, w, **options)  # type: ignore[arg-type]


class Banded(LinesConv):
    """Few rows a band, few items, few rows at a time."""

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        banded = Config(rows=8, items=32, batch=4, stages=3, unroll=1, guarded=1)
        whole = banded.replace(rows=1024, guarded=0)
        return banded if banded in self.search_space(problem, target) else whole


class Alone(BandsConv):
    """Work-groups of the fewest items, one wave if they do; the most rows an item, and chains."""

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        def preference(config: Config) -> tuple[int, ...]:
            chain = config.integer("chain")
            return -config.integer("items"), config.integer("rows"), -abs(chain - 2)

        return max(self.search_space(problem, target), key=preference)


def line_shapes(solver: Walk) -> list[ConvProblem]:
    """Edges of bands, stages and work-groups, which begin and end within a plane."""
    return [
        problem_of(solver, (3, 13, 9, 8), (13, 1, 3, 5), padding=(2, 2), alpha=0.5, beta=2.0),
        problem_of(solver, (2, 3, 57, 56), (3, 1, 7, 7), padding=((0, 3), (3, 3))),
        problem_of(solver, (1, 2, 24, 1000), (2, 1, 2, 5), padding=(1, 2)),
        problem_of(solver, (2, 3, 20, 20), (3, 1, 4, 1), padding=(3, 0)),
        problem_of(solver, (2, 7, 24), (7, 1, 5), padding=2, layout=Layout.NCW),
    ]


def plane_shapes(solver: Walk) -> list[ConvProblem]:
    """Tensors that end within a quad, planes of odd sizes, of one band and of some, and of all
    vectors; the last band lower than the others.
    """
    return [
        problem_of(solver, (3, 13, 7, 7), (13, 1, 3, 3), padding=1, alpha=0.5, beta=2.0),
        problem_of(solver, (5, 7, 14, 14), (7, 1, 7, 7), padding=3),
        problem_of(solver, (3, 5, 6, 14), (5, 1, 5, 3), padding=(2, 1), alpha=0.5, beta=2.0),
        problem_of(solver, (2, 3, 9, 4), (3, 1, 1, 5), padding=(0, 2)),
        problem_of(solver, (2, 5, 12, 12), (5, 1, 3, 5), padding=((0, 2), (4, 0))),
        problem_of(solver, (3, 11, 28, 28), (11, 1, 3, 3), padding=1),
        problem_of(solver, (5, 12, 7, 7), (12, 1, 3, 3), padding=1, beta=2.0),
        problem_of(solver, (2, 9, 1, 31), (9, 1, 1, 3), padding=(0, 1), beta=1.0),
        problem_of(solver, (2, 9, 15), (9, 1, 3), padding=1, layout=Layout.NCW),
    ]


@pytest.mark.parametrize("solver", [LinesConv(DIRECTIONS[0]), Banded(DIRECTIONS[1])])
def test_edges_of_lines(solver: LinesConv, convfind_device: Device) -> None:
    shapes = line_shapes(solver)
    report = assert_solver(
        solver, as_small_gpu(convfind_device), shapes=shapes, every_variant=False
    )
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize("solver", [BandsConv(DIRECTIONS[0]), Alone(DIRECTIONS[1])])
def test_edges_of_bands(solver: BandsConv, convfind_device: Device) -> None:
    shapes = plane_shapes(solver)
    report = assert_solver(
        solver, as_small_gpu(convfind_device), shapes=shapes, every_variant=False
    )
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("kind", "size", "taps"),
    [
        *((LinesConv, size, taps) for size, taps in ((28, 5), (56, 7), (56, 9))),
        *((BandsConv, size, taps) for size, taps in ((14, 7), (7, 3), (28, 3))),
    ],
)
def test_usual_tiles_are_legal(
    kind: type[Walk], size: int, taps: int, direction: Direction
) -> None:
    solver = kind(direction)
    problem = problem_of(solver, (8, 96, size, size), (96, 1, taps, taps), padding=taps // 2)
    assert solver.takes(problem, PLAIN_GPU)
    assert solver.default_config(problem, PLAIN_GPU) in solver.search_space(problem, PLAIN_GPU)


def test_few_planes_are_cut_into_bands() -> None:
    solver = LinesConv(Direction.FORWARD)
    for images, is_whole in ((64, True), (1, False)):
        problem = problem_of(solver, (images, 96, 56, 56), (96, 1, 7, 7), padding=3)
        assert (solver.default_config(problem, PLAIN_GPU).integer("rows") >= 56) is is_whole


@each_solver
def test_other_problems_are_refused(solver: Walk) -> None:
    small = problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), padding=1)
    assert solver.takes(small, PLAIN_GPU)
    last = {f"{name}_layout": Layout.NHWC for name in "xwy"}
    for problem, reason in (
        (replace(small, dtype=DataType.FLOAT16, y_dtype=DataType.FLOAT16), Reason.DTYPE),
        (replace(small, **last), Reason.LAYOUT),  # type: ignore[arg-type]
        (small.with_direction(Direction.BACKWARD_WEIGHTS), Reason.DIRECTION),
        (problem_of(solver, (1, 8, 8, 8), (8, 2, 3, 3), padding=1, groups=4), Reason.CHANNELS),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), stride=2), Reason.STRIDE),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 11, 11), padding=5), Reason.FILTER_SIZE),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3)), Reason.PADDING),
        (problem_of(solver, (1, 4, 201, 201), (4, 1, 3, 3), padding=1), Reason.SIZE_LIMIT),
    ):
        answer = solver.takes(problem, PLAIN_GPU)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


@pytest.mark.parametrize("rows", [3, 4])
def test_rows_of_zeros_alone_are_refused(rows: int) -> None:
    problem = problem_of(SOLVERS[0], (1, 4, 8, 8), (4, 1, 3, 3), padding=((rows, 0), (1, 1)))
    answer = SOLVERS[0].takes(problem, PLAIN_GPU)
    assert isinstance(answer, Rejected)
    assert answer.reason == Reason.PADDING


@pytest.mark.parametrize(
    ("kind", "size", "is_taken"),
    [
        *((BandsConv, size, True) for size in (5, 14, 28, 31)),
        *((BandsConv, size, False) for size in (16, 32, 33)),  # the same banks, too large
        *((LinesConv, size, size % 4 == 0) for size in (5, 8, 14)),
    ],
)
def test_sizes_of_planes(kind: type[Walk], size: int, is_taken: bool) -> None:
    solver = kind(Direction.FORWARD)
    answer = solver.takes(
        problem_of(solver, (1, 4, size, size), (4, 1, 3, 3), padding=1), PLAIN_GPU
    )
    assert (answer.reason if isinstance(answer, Rejected) else None) == (
        None if is_taken else Reason.SIZE_LIMIT
    )


@pytest.mark.parametrize(
    ("size", "taps", "rows"),
    [(28, 3, 1), (14, 3, 2), (14, 7, 3), (14, 9, 2), (8, 3, 3), (7, 3, 4), (7, 5, 7)],
)
def test_usual_bands(size: int, taps: int, rows: int) -> None:
    solver = BandsConv(Direction.FORWARD)
    problem = problem_of(solver, (64, 96, size, size), (96, 1, taps, taps), padding=taps // 2)
    assert solver.default_config(problem, PLAIN_GPU) == Config(items=64, rows=rows, chain=1)


@pytest.mark.parametrize(
    ("x", "taps", "rows", "chain"),
    [
        ((32, 240, 28, 28), 5, 1, 4),
        ((32, 384, 14, 14), 7, 2, 2),
        ((64, 384, 14, 14), 3, 2, 2),
        ((64, 960, 7, 7), 3, 4, 2),
        ((64, 576, 14, 14), 3, 2, 4),
        ((64, 192, 28, 28), 3, 1, 1),  # more work-groups than run at a time
        ((16, 384, 14, 14), 7, 3, 1),  # too few
        ((256, 10, 14, 14), 3, 2, 1),  # a line's last run has one plane of nine
        ((256, 383, 7, 7), 3, 4, 1),  # lines that begin within a four
    ],
)
def test_usual_chains(x: tuple[int, ...], taps: int, rows: int, chain: int) -> None:
    solver = BandsConv(Direction.FORWARD)
    problem = problem_of(solver, x, (x[1], 1, taps, taps), padding=taps // 2)
    config = solver.default_config(problem, H200)
    assert config == Config(items=64, rows=rows, chain=chain)
    assert config in solver.search_space(problem, H200)


def test_search_spaces_are_small() -> None:
    lines = problem_of(SOLVERS[0], (32, 96, 56, 56), (96, 1, 7, 7), padding=3)
    bands = problem_of(SOLVERS[2], (32, 384, 14, 14), (384, 1, 7, 7), padding=3)
    assert 1 < len(list(SOLVERS[0].search_space(lines, PLAIN_GPU))) <= 300
    assert 1 < len(list(SOLVERS[2].search_space(bands, PLAIN_GPU))) <= 100


@each_solver
def test_kernels_compile_alone(solver: Walk, convfind_device: Device) -> None:
    problem = problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), padding=1)
    for program in solver.solution(problem, PLAIN_GPU).programs:
        assert convfind_device.compile(replace(program, defines=()))
