"""Groups of 8 channels on CPUs, the weight gradient: bands, edges, other registers, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import PLAIN_GPU, of_instructions, on_cpu
from drawn_shapes import assert_drawn, legal
from hypothesis import strategies as st

from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import assert_solver
from convfind.types import Direction, Layout
from convfind_solvers_direct.cpu.weights import CpuGroupsWeights, CpuPixelsWeights
from convfind_solvers_direct.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

SOLVER = CpuGroupsWeights()


def problem_of(x: tuple[int, ...], w: tuple[int, ...], **options: object) -> ConvProblem:
    options = {
        "layout": Layout.of(len(x) - 2, channels_last=True),
        "groups": x[1] // w[1],
        **options,
    }
    return ConvProblem.create(Direction.BACKWARD_WEIGHTS, x, w, **options)  # type: ignore[arg-type]


def shapes() -> list[ConvProblem]:
    """An odd group, bands that do not divide the image, all kinds of filters and padding."""
    return [
        problem_of((2, 24, 7, 10), (24, 8, 3, 3), padding=1),
        problem_of((2, 32, 9, 12), (32, 8, 3, 3), padding=1, stride=2, beta=0.5),
        problem_of((3, 16, 15, 8), (16, 8, 5, 5), padding=(3, 1), stride=(2, 1)),
        problem_of((1, 40, 11, 13), (40, 8, 1, 1), alpha=0.5),
        problem_of((1, 48, 20, 9), (48, 8, 7, 7), padding=4, dilation=(1, 2)),
        problem_of((2, 16, 40), (16, 8, 9), padding=9),
        problem_of((5, 64, 28, 28), (64, 8, 3, 3), padding=1),
        problem_of((1, 16, 3, 250), (16, 8, 3, 3), padding=1),
        problem_of((1, 16, 64, 33), (16, 8, 2, 12), padding=(5, 13), dilation=(3, 1)),
    ]


@pytest.mark.parametrize("arch", ["x86-64-avx2", "x86-64-avx512"])
def test_edges_of_bands(arch: str, convfind_device: Device) -> None:
    device = of_instructions(on_cpu(convfind_device), arch)
    report = assert_solver(SOLVER, device, shapes=shapes(), every_variant=False)
    assert len(report.problems) == len(shapes())


@st.composite
def problems(draw: st.DrawFn) -> list[ConvProblem]:
    """Draw problems of one filter and stride."""
    taps = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))

    def one() -> ConvProblem:
        channels = 8 * draw(st.integers(2, 9))
        axes = draw(st.integers(1, 40)), draw(st.integers(1, 40))
        padding = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in axes)
        return problem_of(
            (draw(st.integers(1, 3)), channels, *axes),
            (channels, 8, *taps),
            stride=stride,
            padding=padding,
            beta=draw(st.sampled_from((0.0, 2.0))),
        )

    return legal(one, 6)


def test_drawn_shapes(convfind_device: Device) -> None:
    assert_drawn(SOLVER, on_cpu(convfind_device), problems())


def test_kernels_compile_alone(convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    for program in SOLVER.solution(shapes()[0], device.target).programs:
        assert device.compile(replace(program, defines=()))


def test_other_groups_and_wide_rows_are_refused(convfind_device: Device) -> None:
    target = on_cpu(convfind_device).target
    for problem, device, reason in (
        (shapes()[0], PLAIN_GPU, Reason.DEVICE_KIND),
        (problem_of((1, 16, 9, 9), (16, 4, 3, 3)), target, Reason.CHANNELS),
        (problem_of((1, 16, 9, 9), (32, 8, 3, 3)), target, Reason.CHANNELS),
        (problem_of((1, 16, 40, 40), (16, 8, 3, 13)), target, Reason.FILTER_SIZE),
        (problem_of((1, 16, 9, 2000), (16, 8, 3, 3)), target, Reason.SIZE_LIMIT),
    ):
        answer = SOLVER.takes(problem, device)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


def test_it_ranks_before_the_solver_of_all_groups_where_registers_are_few(
    convfind_device: Device,
) -> None:
    ids = [solver.solver_id for solver in solvers()]
    assert ids.index(SOLVER.solver_id) < ids.index(CpuPixelsWeights().solver_id)
    problem = shapes()[6]
    for arch, before in (("x86-64-avx2", True), ("x86-64-avx512", False)):
        target = of_instructions(on_cpu(convfind_device), arch).target
        own, other = SOLVER.wti(problem, target), CpuPixelsWeights().wti(problem, target)
        assert own is not None
        assert other is not None
        assert (own >= other) is before
