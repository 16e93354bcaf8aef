"""The Winograd solvers for first and last layers on GPUs, run on whatever device there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import devices_for_tests
import pytest

from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import MOCK_TARGET, assert_solver
from convfind.types import Direction, Layout
from convfind_solvers_winograd.algorithms import F4X3
from convfind_solvers_winograd.gpu_narrow import MOST, NarrowSolver

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [NarrowSolver(F4X3, way) for way in (Direction.FORWARD, Direction.BACKWARD_DATA)]
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


@pytest.fixture
def as_gpu(convfind_device: Device) -> Device:
    """The device as if it were a GPU with few units, whatever it is."""
    return devices_for_tests.as_gpu(convfind_device, compute_units=2, local_memory=48 * 1024)


def problem_for(
    solver: NarrowSolver, x: tuple[int, ...], filters: int, **options: Any
) -> ConvProblem:
    options.setdefault("layout", Layout.NHWC)
    w = (filters, x[1] // options.get("groups", 1), 3, 3)
    return ConvProblem.create(solver.direction, x, w, **options)


@each
def test_the_conformance_kit_finds_nothing(solver: NarrowSolver, as_gpu: Device) -> None:
    # More tiles than the work-groups have at a time, filters of two blocks, channels of many.
    shapes = [
        problem_for(solver, (3, 3, 50, 33), 72, padding=((0, 2), (3, 1))),
        problem_for(solver, (2, 70, 13, 9), 3, padding=1, alpha=0.5, beta=2.0),
        problem_for(solver, (1, 3, 4, 4), 3, padding=9),
    ]
    report = assert_solver(solver, as_gpu, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@each
def test_what_is_refused(solver: NarrowSolver, as_gpu: Device) -> None:
    for x, filters, options, reason in (
        ((1, 16, 16, 16), 16, {}, Reason.CHANNELS),
        ((1, 4, 16, 16), 4, {"groups": 2}, Reason.GROUPS),
        ((1, MOST, 16, 16), 16, {"layout": Layout.NCHW}, Reason.LAYOUT),
    ):
        answer = solver.takes(problem_for(solver, x, filters, **options), as_gpu.target)
        assert isinstance(answer, Rejected)
        assert answer.reason is reason


@each
def test_the_index_grows_with_what_is_computed_at_a_time(solver: NarrowSolver) -> None:
    target = replace(MOCK_TARGET, identity="", kind=DeviceKind.GPU, compute_units=132)
    problem = problem_for(solver, (16, 3, 224, 224), 64, padding=1)
    found = solver.wti(problem, target)
    wasted = solver.wti(problem_for(solver, (16, 3, 225, 225), 64, padding=1), target)
    assert found is not None
    assert wasted is not None
    assert 0.0 < wasted < found
