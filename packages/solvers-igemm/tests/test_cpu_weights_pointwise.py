"""Gradients of the weights of 1x1 filters from where data lie: right, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from devices_for_tests import on_cpu
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
from convfind_solvers_igemm.cpu.weights_pointwise import ChannelsLastPointwiseBackwardWeights

pytest_plugins = ["convfind.testing.fixtures"]

SOLVER = ChannelsLastPointwiseBackwardWeights()
TARGET = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU)
problem_of = partial(pointwise, Direction.BACKWARD_WEIGHTS)


def test_edges_of_tiles(convfind_device: Device) -> None:
    shapes = [
        problem_of(2, 16, (5, 7), 4),
        problem_of(3, 48, (31, 9), 20, beta=2.0),
        problem_of(1, 272, (3, 3, 11), 68, alpha=0.5),
        problem_of(4, 32, (49,), 1000),
        problem_of(1, 64, (97, 101), 28),
    ]
    report = assert_solver(SOLVER, on_cpu(convfind_device), shapes=shapes)
    assert len(report.problems) == len(shapes)


def test_drawn_shapes(convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    sizes = st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple)
    problems = st.builds(
        problem_of,
        st.integers(1, 4),
        st.integers(1, 12).map(lambda vectors: 16 * vectors),
        sizes,
        st.integers(1, 40).map(lambda fours: 4 * fours),
        beta=st.sampled_from((0.0, 2.0)),
    )
    assert_drawn(SOLVER, device, st.lists(problems, min_size=8, max_size=16), refuses=False)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (problem_of(1, 64, (9, 9), 64, taps=3), Reason.FILTER_SIZE),
        (problem_of(1, 64, (9, 9), 64, stride=2), Reason.STRIDE),
        (problem_of(1, 64, (9, 9), 64, padding=1), Reason.PADDING),
        (problem_of(1, 64, (9, 9), 64, groups=2), Reason.GROUPS),
        (problem_of(1, 40, (9, 9), 64), Reason.CHANNELS),
        (problem_of(1, 64, (9, 9), 66), Reason.CHANNELS),
        (problem_of(1, 512, (9, 9), 256), Reason.SIZE_LIMIT),
    ],
)
def test_what_it_refuses(problem: ConvProblem, reason: Reason) -> None:
    answer = SOLVER.takes(problem, TARGET)
    assert isinstance(answer, Rejected)
    assert answer.reason == reason


def test_less_workspace_is_fewer_parts() -> None:
    problem = problem_of(4, 64, (56, 56), 64)
    whole = SOLVER.workspace_size(problem, TARGET)
    least = 4 * 64 * 64
    assert whole > 2 * least
    assert SOLVER.workspace_size(problem, TARGET, 2 * least) == 2 * least
    assert SOLVER.workspace_size(problem, TARGET, 0) == least
