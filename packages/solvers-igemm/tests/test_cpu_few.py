"""1x1 filters at a few positions: right, and what is refused."""

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
from convfind_solvers_igemm.cpu.few import ChannelsLastFewForward

pytest_plugins = ["convfind.testing.fixtures"]

SOLVER = ChannelsLastFewForward()
TARGET = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU)
problem_of = partial(pointwise, Direction.FORWARD)


def test_edges_of_vectors(convfind_device: Device) -> None:
    shapes = [
        problem_of(1, 16, (1, 1), 16),
        problem_of(1, 23, (1, 1), 37),
        problem_of(2, 240, (1, 1), 97, beta=2.0),
        problem_of(1, 7, (3, 1), 5, alpha=0.5),
        problem_of(2, 50, (3,), 40),
        problem_of(2, 33, (2,), 18),
        problem_of(1, 320, (1, 1, 1), 1000),
    ]
    report = assert_solver(SOLVER, on_cpu(convfind_device), shapes=shapes)
    assert len(report.problems) == len(shapes)


def test_drawn_shapes(convfind_device: Device) -> None:
    problems = st.builds(
        problem_of,
        st.integers(1, 2),
        st.integers(1, 100),
        st.sampled_from(((1, 1), (2,), (1, 2, 2))),
        st.integers(1, 100),
        bias=st.booleans(),
        beta=st.sampled_from((0.0, 2.0)),
    )
    device = on_cpu(convfind_device)
    assert_drawn(SOLVER, device, st.lists(problems, min_size=8, max_size=16), refuses=False)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (problem_of(1, 16, (2, 2), 16, taps=2), Reason.FILTER_SIZE),
        (problem_of(1, 16, (4, 1), 16, stride=2), Reason.STRIDE),
        (problem_of(1, 16, (1, 1), 16, padding=1), Reason.PADDING),
        (problem_of(1, 16, (1, 1), 16, groups=2), Reason.GROUPS),
        (problem_of(1, 16, (9, 1), 16), Reason.SIZE_LIMIT),
        (problem_of(1, 16, (1, 1), 16, dtype="float16"), Reason.DTYPE),
    ],
)
def test_what_it_refuses(problem: ConvProblem, reason: Reason) -> None:
    answer = SOLVER.takes(problem, TARGET)
    assert isinstance(answer, Rejected)
    assert answer.reason == reason
