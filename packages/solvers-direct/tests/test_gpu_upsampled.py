"""The gradient of small planes through strides keeps the contract and is right on edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import H200, PLAIN_GPU, as_small_gpu
from drawn_shapes import assert_drawn, legal
from hypothesis import assume
from hypothesis import strategies as st

from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.testing import assert_solver, edge_cases
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu.planes import PlanesConv
from convfind_solvers_direct.gpu.upsampled import UpsampledConv
from convfind_solvers_direct.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

SOLVER = UpsampledConv()


def problem_of(x: tuple[int, ...], w: tuple[int, ...], **options: object) -> ConvProblem:
    options = {"groups": x[1], "stride": 2, **options}
    return ConvProblem.create(Direction.BACKWARD_DATA, x, w, **options)  # type: ignore[arg-type]


class Chained(UpsampledConv):
    """The fewest items, one wave if they do; then chains of two images where there are any, and
    the most rows an item.
    """

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        def preference(config: Config) -> tuple[int, ...]:
            chain = config.integer("chain")
            return -config.integer("items"), -abs(chain - 2), config.integer("rows")

        return max(self.search_space(problem, target), key=preference)


def shapes() -> list[ConvProblem]:
    """Strides of 1 to 3 along an axis, more than there are taps too; tensors that end within a
    four, last bands lower than the others, chains with a rest, all vectors.
    """
    return [
        problem_of((5, 16, 14, 14), (16, 1, 3, 3), padding=1, alpha=0.5, beta=2.0),
        problem_of((3, 13, 7, 7), (13, 1, 3, 3), padding=1, alpha=0.5, beta=2.0),
        problem_of((5, 12, 14, 14), (12, 1, 7, 7), padding=3, beta=1.0),
        problem_of((4, 13, 12, 14), (13, 1, 5, 5), padding=((2, 1), (0, 2))),
        problem_of((3, 8, 28, 28), (8, 1, 3, 3), padding=1),
        problem_of((3, 8, 15, 13), (8, 1, 3, 2), padding=1, stride=3),
        problem_of((3, 4, 24, 23), (4, 1, 5, 1), padding=(2, 0), stride=(3, 2)),
        problem_of((3, 5, 9, 31), (5, 1, 1, 4), stride=(1, 3), padding=(0, 2)),
        problem_of((3, 4, 8, 9), (4, 1, 1, 1)),
        problem_of((2, 9, 15), (9, 1, 3), padding=1, layout=Layout.NCW),
    ]


@pytest.mark.parametrize("solver", [SOLVER, Chained()])
def test_edges_of_bands(solver: UpsampledConv, convfind_device: Device) -> None:
    device = as_small_gpu(convfind_device)
    report = assert_solver(solver, device, shapes=shapes(), every_variant=False)
    assert len(report.problems) == len(shapes())


def test_edge_cases(convfind_device: Device) -> None:
    cases = [case for case in edge_cases() if case.groups == case.x_shape[1] > 1]
    cases.append(problem_of((2, 6, 9, 9), (6, 1, 3, 3), padding=1))
    assert assert_solver(SOLVER, as_small_gpu(convfind_device), shapes=cases).problems


@st.composite
def problems(draw: st.DrawFn) -> list[ConvProblem]:
    """Draw problems of one filter and stride."""
    taps = (draw(st.integers(1, 7)), draw(st.integers(1, 7)))
    stride = draw(st.sampled_from(((2, 2), (3, 3), (1, 2), (3, 2))))

    def one() -> ConvProblem:
        groups = draw(st.integers(2, 12))
        padding = tuple(
            (draw(st.integers(0, count - 1)), draw(st.integers(0, count))) for count in taps
        )
        sizes = draw(st.integers(1, 31)), draw(st.integers(1, 31))
        return problem_of(
            (draw(st.integers(1, 5)), groups, *sizes),
            (groups, 1, *taps),
            stride=stride,
            padding=padding,
            beta=draw(st.sampled_from((0.0, 2.0))),
        )

    found = [problem for problem in legal(one, 3) if SOLVER.takes(problem, PLAIN_GPU)]
    assume(found)
    return found


@pytest.mark.parametrize("solver", [SOLVER, Chained()])
def test_drawn_shapes(solver: UpsampledConv, convfind_device: Device) -> None:
    assert_drawn(solver, as_small_gpu(convfind_device), problems(), examples=4)


@pytest.mark.parametrize(
    ("x", "taps", "stride", "chain"),
    [
        ((64, 576, 14, 14), 3, 2, 2),
        ((64, 192, 28, 28), 3, 2, 4),
        ((256, 192, 28, 28), 3, 2, 1),  # more work-groups than run at a time
        ((4, 192, 28, 28), 3, 2, 1),  # too few
        ((64, 383, 7, 7), 3, 2, 1),  # lines that begin within a four
    ],
)
def test_usual_chains(x: tuple[int, ...], taps: int, stride: int, chain: int) -> None:
    problem = problem_of(x, (x[1], 1, taps, taps), padding=taps // 2, stride=stride)
    config = SOLVER.default_config(problem, H200)
    assert config == Config(items=64, rows=1, chain=chain)
    assert config in SOLVER.search_space(problem, H200)
    # Without copies past the registers nothing comes meanwhile.
    assert SOLVER.default_config(problem, PLAIN_GPU) == config.replace(chain=1)
    assert len(list(SOLVER.search_space(problem, H200))) <= 100


def test_it_ranks_before_the_solver_of_all_strides() -> None:
    ids = [solver.solver_id for solver in solvers()]
    other = PlanesConv(Direction.BACKWARD_DATA)
    assert ids.index(SOLVER.solver_id) < ids.index(other.solver_id)
    for size, taps in ((14, 3), (28, 3), (14, 7), (28, 5)):
        problem = problem_of((64, 192, size, size), (192, 1, taps, taps), padding=taps // 2)
        own, its = (solver.wti(problem, H200) for solver in (SOLVER, other))
        assert own is not None
        assert its is not None
        assert own >= its


def test_other_problems_are_refused() -> None:
    small = problem_of((1, 4, 8, 8), (4, 1, 3, 3), padding=1)
    assert SOLVER.takes(small, PLAIN_GPU)
    last = {f"{name}_layout": Layout.NHWC for name in "xwy"}
    cpu = replace(PLAIN_GPU, identity="", kind=DeviceKind.CPU)
    little = replace(PLAIN_GPU, identity="", local_memory=32 * 1024)
    for problem, target, reason in (
        (small, cpu, Reason.DEVICE_KIND),
        (small, little, Reason.LOCAL_MEMORY),
        (
            replace(small, dtype=DataType.FLOAT16, y_dtype=DataType.FLOAT16),
            PLAIN_GPU,
            Reason.DTYPE,
        ),
        (replace(small, **last), PLAIN_GPU, Reason.LAYOUT),  # type: ignore[arg-type]
        (small.with_direction(Direction.FORWARD), PLAIN_GPU, Reason.DIRECTION),
        (
            problem_of((1, 8, 8, 8), (8, 2, 3, 3), padding=1, groups=4),
            PLAIN_GPU,
            Reason.CHANNELS,
        ),
        (problem_of((1, 4, 8, 8), (4, 1, 3, 3), stride=1), PLAIN_GPU, Reason.STRIDE),
        (problem_of((1, 4, 9, 9), (4, 1, 3, 3), dilation=2), PLAIN_GPU, Reason.DILATION),
        (problem_of((1, 4, 8, 8), (4, 1, 11, 11), padding=5), PLAIN_GPU, Reason.FILTER_SIZE),
        (problem_of((1, 4, 8, 8), (4, 1, 3, 3), padding=3), PLAIN_GPU, Reason.PADDING),
        (problem_of((1, 4, 32, 8), (4, 1, 3, 3), padding=1), PLAIN_GPU, Reason.SIZE_LIMIT),
        # Rows of 16 meet in the same banks; of 8 x 31 no eight fit the registers.
        (problem_of((1, 4, 16, 16), (4, 1, 3, 3), padding=1), PLAIN_GPU, Reason.SIZE_LIMIT),
        (problem_of((1, 4, 31, 31), (4, 1, 3, 3), stride=8), PLAIN_GPU, Reason.SIZE_LIMIT),
    ):
        answer = SOLVER.takes(problem, target)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


def test_the_kernel_compiles_alone(convfind_device: Device) -> None:
    problem = problem_of((1, 4, 8, 8), (4, 1, 3, 3), padding=1)
    for program in SOLVER.solution(problem, PLAIN_GPU).programs:
        assert convfind_device.compile(replace(program, defines=()))
