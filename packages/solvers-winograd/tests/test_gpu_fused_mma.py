"""The fused Winograd solvers on tensor cores: what surrounds the kernel, and there the kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices_for_tests import H200, as_gpu

from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device, InvokeArgs
from convfind.solver.applicability import Rejected
from convfind.solver.recipe import Launch
from convfind.testing import assert_solver
from convfind.types import Direction, Layout
from convfind_solvers_winograd.algorithms import F4X3
from convfind_solvers_winograd.gpu_fused_mma import FusedMmaSolver

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [FusedMmaSolver(F4X3, way) for way in (Direction.FORWARD, Direction.BACKWARD_DATA)]
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)
POINTS = F4X3.n**2


def problem_for(
    solver: FusedMmaSolver, x: tuple[int, ...], filters: int, **options: Any
) -> ConvProblem:
    options.setdefault("layout", Layout.NHWC)
    w = (filters, x[1] // options.get("groups", 1), 3, 3)
    return ConvProblem.create(solver.direction, x, w, **options)


@each
def test_filters_lie_in_the_order_of_fragments(
    solver: FusedMmaSolver, convfind_device: Device
) -> None:
    problem = problem_for(solver, (1, 2 * 36, 4, 4), 2 * 40, groups=2)
    device = as_gpu(convfind_device)
    solution = solver.solution(problem, H200)
    (launch,) = (step for step in solution.prepare if isinstance(step, Launch))
    weights = np.random.default_rng(0).standard_normal((2, 40, 36, 3, 3), dtype=np.float32)
    packed = np.full(solution.packed // 4, np.nan, np.float32)
    w = device.allocate(weights.nbytes)
    device.write(w, np.ascontiguousarray(weights.transpose(0, 1, 3, 4, 2)))
    to = device.allocate(packed.nbytes)
    program = launch.kernel.program
    loaded = {program: device.load(program, device.compile(program))}
    device.invoker([launch], loaded)(InvokeArgs(w=w, packed=to))
    device.read(to, packed)

    matrix = np.array(F4X3.filter, np.float64)
    if solver.direction is Direction.BACKWARD_DATA:
        weights = weights.swapaxes(1, 2)[..., ::-1, ::-1]
    points = np.einsum("ia,gkcab,jb->ijgkc", matrix, weights, matrix)
    filters, channels = points.shape[-2:]
    expected = np.zeros((POINTS, 2, 64, 64))
    expected[..., :filters, :channels] = points.reshape(POINTS, 2, filters, channels)
    # Of 32 filters by 8 channels: pairs of eight filters, filter, channel, which eight, half.
    blocks = expected.reshape(POINTS, 2, 2, 2, 2, 8, 8, 2, 4).transpose(0, 1, 6, 2, 3, 5, 8, 4, 7)
    np.testing.assert_allclose(packed, blocks.reshape(-1), rtol=1e-5, atol=1e-5)


@each
def test_a_work_group_fits_a_unit(solver: FusedMmaSolver) -> None:
    """NVIDIA's compiler takes as many registers as 256 items have."""
    # Of 32 tiles and 32 filters each; in one wave of work-groups.
    blocks = 3 if solver.direction is Direction.FORWARD else 2
    for images, expected in ((2, blocks), (1000, 132)):
        problem = problem_for(solver, (images, 40, 16, 16), 80, padding=1)
        solution = solver.solution(problem, H200)
        (launch,) = (step for step in solution.steps if isinstance(step, Launch))
        assert launch.local_size == (256,)
        assert launch.global_size == (256 * expected,)


@each
def test_only_hopper_has_the_local_memory(solver: FusedMmaSolver) -> None:
    problem = problem_for(solver, (64, 64, 56, 56), 64, padding=1)
    assert solver.takes(problem, H200)
    assert (solver.wti(problem, H200) or 0.0) > 1.0
    for other, reason in (
        (replace(H200, identity="", arch="sm_86"), Reason.ARCHITECTURE),
        (replace(H200, identity="", features=frozenset()), Reason.FEATURE),
    ):
        answer = solver.takes(problem, other)
        assert isinstance(answer, Rejected)
        assert answer.reason is reason


@each
def test_the_conformance_kit_finds_nothing(solver: FusedMmaSolver, convfind_device: Device) -> None:
    problem = problem_for(solver, (2, 64, 14, 14), 64, padding=1)
    if not solver.takes(problem, convfind_device.target):
        pytest.skip("needs tensor cores")
    assert_solver(solver, convfind_device, shapes=[problem], every_variant=False)
