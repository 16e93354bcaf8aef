"""1x1 convolutions of stride 1 from where data lie: right at all edges, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from devices_for_tests import of_instructions, on_cpu
from drawn_shapes import assert_drawn
from hypothesis import strategies as st
from pointwise_problems import pointwise

from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import MOCK_TARGET, assert_solver
from convfind.types import Direction
from convfind_solvers_igemm.cpu.flat import ChannelsLastFlatForward

pytest_plugins = ["convfind.testing.fixtures"]

SOLVER = ChannelsLastFlatForward()
TARGET = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU)
problem_of = partial(pointwise, Direction.FORWARD)


#: Few positions and many, filters that are no vectors or end in half a one, sums of one block and
#: of several.
SHAPES = [
    problem_of(1, 5, (1, 1), 3),
    problem_of(1, 40, (7, 7), 16, beta=2.0),
    problem_of(2, 17, (3,), 33, alpha=0.5),
    problem_of(1, 16, (5, 5, 5), 24),
    problem_of(3, 700, (5, 5), 50, beta=0.5),
    problem_of(1, 3000, (4, 11), 20),
    problem_of(1, 33, (29, 41), 64),
    problem_of(2, 40, (9, 11), 24, beta=2.0),
    problem_of(1, 90, (5, 21), 8, bias=True, activation="relu"),
    problem_of(1, 20, (13, 9), 40, bias=True, add=True, activation="silu"),
    problem_of(1, 48, (6, 5), 32, bias=True, add=True),
    # among the channels of a larger tensor
    problem_of(2, 20, (5, 7), 24, y_strides=(5 * 7 * 80, 1, 7 * 80, 80), bias=True),
    problem_of(1, 500, (3, 11), 37, y_strides=(3 * 11 * 41, 1, 11 * 41, 41), beta=2.0),
    problem_of(3, 12, (4,), 19, y_strides=(4 * 64, 1, 64), add=True, activation="relu"),
    problem_of(2, 20, (5, 7), 24, x_strides=(5 * 7 * 33, 1, 7 * 33, 33), bias=True),
    problem_of(1, 33, (9, 11), 8, x_strides=(9 * 11 * 66, 1, 11 * 66, 66), bias=True),
    problem_of(2, 800, (5, 3), 40, x_strides=(15 * 999, 1, 3 * 999, 999), beta=2.0),
    problem_of(2, 6, (70,), 17, x_strides=(70 * 9, 1, 9), y_strides=(70 * 20, 1, 20)),
]


@pytest.mark.parametrize("arch", ["x86-64-avx2", "aarch64", "x86-64-avx512"])
def test_edges_of_tiles(convfind_device: Device, arch: str) -> None:
    device = of_instructions(on_cpu(convfind_device), arch)
    assert_solver(SOLVER, device, shapes=SHAPES, every_variant=False)


def test_drawn_shapes(convfind_device: Device) -> None:
    sizes = st.lists(st.integers(1, 14), min_size=1, max_size=3).map(tuple)
    problems = st.builds(
        problem_of,
        *(st.integers(1, 3), st.integers(1, 90), sizes, st.integers(1, 70)),
        beta=st.sampled_from((0.0, 2.0)),
    )
    drawn = st.lists(problems, min_size=8, max_size=16)
    assert_drawn(SOLVER, on_cpu(convfind_device), drawn, refuses=False)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (problem_of(1, 64, (9, 9), 64, taps=3, padding=1), Reason.FILTER_SIZE),
        (problem_of(1, 64, (9, 9), 64, stride=2), Reason.STRIDE),
        (problem_of(1, 64, (9, 9), 64, padding=1), Reason.PADDING),
        (problem_of(1, 64, (9, 9), 64, groups=2), Reason.GROUPS),
        (problem_of(1, 1, (2**16, 2**16), 1), Reason.SIZE_LIMIT),
    ],
)
def test_what_it_refuses(problem: ConvProblem, reason: Reason) -> None:
    answer = SOLVER.takes(problem, TARGET)
    assert isinstance(answer, Rejected)
    assert answer.reason == reason
