"""The solvers of narrow types for CPUs keep the contract and round once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import on_cpu

from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_igemm.cpu.widened import CpuWidened
from convfind_solvers_igemm.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [solver for solver in solvers() if isinstance(solver, CpuWidened)]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


@each_solver
def test_the_conformance_kit_finds_nothing(solver: CpuWidened, convfind_device: Device) -> None:
    report = assert_solver(solver, on_cpu(convfind_device))
    assert len(report.problems) > 20


@each_solver
@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BFLOAT16], ids=str)
def test_long_sums_are_rounded_once(
    solver: CpuWidened, dtype: DataType, convfind_device: Device
) -> None:
    layout = Layout.of(2, channels_last=solver.inner.channels_last)
    problem = ConvProblem.create(
        solver.inner.direction,
        (2, 130, 17, 19),
        (40, 130, 3, 3),
        padding=1,
        alpha=0.5,
        beta=2.0,
        layout=layout,
        dtype=dtype,
    )
    assert_solver(solver, on_cpu(convfind_device), shapes=[problem], every_variant=False)


def test_int8_is_taken_as_far_as_sums_are_exact(convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    for solver in SOLVERS:
        if solver.inner.direction is not Direction.FORWARD:
            continue
        layout = Layout.of(2, channels_last=solver.inner.channels_last)
        whole, halved, over = (
            ConvProblem.create(
                Direction.FORWARD,
                (1, channels, 9, 9),
                (20, channels, 1, 1),
                layout=layout,
                dtype=DataType.INT8,
            )
            for channels in (1024, 1025, 16385)
        )
        for y_dtype in (DataType.INT32, DataType.FLOAT32):
            shapes = [replace(problem, y_dtype=y_dtype) for problem in (whole, halved)]
            assert_solver(solver, device, shapes=shapes, every_variant=False)
        answer = solver.takes(over, device.target)
        assert isinstance(answer, Rejected)
        assert answer.reason is Reason.ACCURACY


@pytest.mark.parametrize("channels", [40, 1025], ids=["whole", "halved"])
def test_int8_is_scaled_behind_whole_sums(channels: int, convfind_device: Device) -> None:
    for solver in SOLVERS:
        if solver.inner.direction is not Direction.FORWARD:
            continue
        shapes = [
            ConvProblem.forward(
                *((2, channels, 9, 7), (20, channels, 1, 1)),
                layout=Layout.of(2, channels_last=solver.inner.channels_last),
                dtype=DataType.INT8,
                y_dtype=y_dtype,
                alpha=alpha,
                beta=beta,
            )
            for y_dtype, alpha, beta in (
                (DataType.INT32, -3.0, 0.0),
                (DataType.INT32, 1.0, 2.0),
                (DataType.FLOAT32, 0.5, -1.5),
            )
        ]
        report = assert_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
        assert not report.rejected
