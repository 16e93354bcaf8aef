"""Groups of whole vectors of channels on CPUs, forward: blocks, edges, refusals."""

from __future__ import annotations

from dataclasses import replace

from devices_for_tests import PLAIN_GPU, of_instructions, on_cpu
from drawn_shapes import assert_drawn, legal
from hypothesis import strategies as st

from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import assert_solver, fused
from convfind.types import Layout
from convfind_solvers_direct.cpu.groups import CpuGroups

pytest_plugins = ["convfind.testing.fixtures"]

SOLVER = CpuGroups()


def problem_of(x: tuple[int, ...], w: tuple[int, ...], **options: object) -> ConvProblem:
    options = {
        "layout": Layout.of(len(x) - 2, channels_last=True),
        "groups": x[1] // w[1],
        **options,
    }
    return ConvProblem.forward(x, w, **options)  # type: ignore[arg-type]


def shapes() -> list[ConvProblem]:
    """Odd groups, blocks that do not divide the image, all kinds of filters and padding."""
    return [
        problem_of((2, 48, 9, 7), (48, 24, 3, 3), padding=1, stride=2),
        problem_of((1, 120, 15, 12), (120, 24, 3, 3), padding=1),
        problem_of((3, 32, 15, 8), (64, 16, 5, 5), padding=((0, 3), (4, 1)), stride=(2, 1)),
        problem_of((1, 80, 11, 13), (80, 40, 1, 1), alpha=0.5, beta=2.0),
        problem_of((1, 48, 20, 9), (16, 24, 7, 7), padding=4, dilation=(1, 2)),
        problem_of((2, 16, 40), (16, 8, 9), padding=9),
        problem_of((1, 16, 3, 1500), (48, 8, 3, 3), padding=1),  # blocks of parts of a row
        problem_of((1, 128, 64, 33), (128, 64, 2, 4), padding=(5, 6), dilation=(3, 1)),
        problem_of((1, 48, 3, 3), (48, 24, 3, 3)),  # a single result
        problem_of((1, 48, 2, 2), (48, 24, 3, 3), padding=9, stride=3),
    ]


def test_edges_of_blocks(convfind_device: Device) -> None:
    problems = shapes()
    problems += [fused(problem) for problem in problems[:4]]
    problems += [replace(problem, add_last=not problem.add_last) for problem in problems[-2:]]
    device = on_cpu(convfind_device)
    report = assert_solver(SOLVER, device, shapes=problems, every_variant=False)
    assert len(report.problems) == len(problems)


@st.composite
def problems_of_one_filter(draw: st.DrawFn) -> list[ConvProblem]:
    """Draw problems of one filter and stride, which share a program."""
    taps = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    channels, filters = 8 * draw(st.integers(1, 4)), 8 * draw(st.integers(1, 4))

    def one() -> ConvProblem:
        groups = draw(st.integers(2, 5))
        axes = draw(st.integers(1, 40)), draw(st.integers(1, 40))
        padding = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in axes)
        return problem_of(
            (draw(st.integers(1, 3)), groups * channels, *axes),
            (groups * filters, channels, *taps),
            stride=stride,
            padding=padding,
        )

    return legal(one, draw(st.integers(2, 6)))


def test_drawn_shapes(convfind_device: Device) -> None:
    assert_drawn(SOLVER, on_cpu(convfind_device), problems_of_one_filter())


def test_kernels_compile_alone(convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    for program in SOLVER.solution(shapes()[0], device.target).programs:
        assert device.compile(replace(program, defines=()))


def test_what_is_refused(convfind_device: Device) -> None:
    target = on_cpu(convfind_device).target
    for problem, device, reason in (
        (shapes()[0], PLAIN_GPU, Reason.DEVICE_KIND),
        (problem_of((1, 24, 9, 9), (24, 24, 3, 3)), target, Reason.GROUPS),
        (problem_of((1, 24, 9, 9), (24, 12, 3, 3)), target, Reason.CHANNELS),
        (problem_of((1, 48, 9, 9), (8, 24, 3, 3)), target, Reason.CHANNELS),
        (problem_of((1, 144, 9, 9), (48, 72, 3, 3)), target, Reason.CHANNELS),
        (problem_of((1, 128, 99, 99), (128, 64, 3, 3), dilation=40), target, Reason.SIZE_LIMIT),
        (problem_of((2**26, 16, 8, 8), (16, 8, 3, 3)), target, Reason.SIZE_LIMIT),
        (
            problem_of((1, 16, 3, 3), (16, 8, 1, 1), padding=((0, 2**33), (0, 0)), stride=2**31),
            target,
            Reason.SIZE_LIMIT,
        ),
    ):
        answer = SOLVER.takes(problem, device)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


def test_the_index_prefers_it_where_vectors_of_16_would_be_half_empty(
    convfind_device: Device,
) -> None:
    target = of_instructions(on_cpu(convfind_device), "x86-64-avx2").target

    def index(channels: int) -> float:
        problem = problem_of((4, 4 * channels, 28, 28), (4 * channels, channels, 3, 3), stride=2)
        return SOLVER.wti(problem, target) or 0.0

    assert index(24) > index(16) > 0.0
    assert index(24) > index(40) > 0.0
