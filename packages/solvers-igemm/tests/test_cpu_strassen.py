"""Strassen's algorithm on CPUs keeps the contract, and asks for halves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from devices_for_tests import of_instructions, on_cpu

from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device, InvokeArgs
from convfind.solver.applicability import Applicable, Rejected
from convfind.testing import assert_solver
from convfind.types import AccuracyClass, Direction, Layout
from convfind_solvers_igemm.cpu.strassen import Strassen
from convfind_solvers_igemm.solver_list import cpu_solvers

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [solver for solver in cpu_solvers() if isinstance(solver, Strassen)]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


def shapes(solver: Strassen) -> list[ConvProblem]:
    """Odd batches, sums longer than a block, groups, halves along each axis, strides."""

    def problem(
        x: tuple[int, ...],
        w: tuple[int, ...],
        *,
        groups: int = 1,
        stride: int = 1,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> ConvProblem:
        return ConvProblem.create(
            *(solver.direction, x, (*w, *(1,) * (len(x) - 2))),
            groups=groups,
            stride=stride if solver.direction is Direction.FORWARD else 1,
            alpha=alpha,
            beta=beta,
            layout=Layout.of(len(x) - 2, channels_last=False),
        )

    return [
        problem((1, 64, 8, 7), (64, 64)),
        problem((3, 70, 6, 9), (90, 70), alpha=0.5, beta=2.0),
        problem((2, 1100, 6, 5), (1066, 1100), beta=0.5),
        problem((3, 64, 8, 11), (74, 64), stride=2),
        problem((2, 68, 19, 40), (64, 68), stride=2, beta=0.5),
        problem((2, 132, 14, 14), (192, 66), groups=2),
        problem((2, 64, 50), (66, 64), beta=0.5),
        problem((2, 64, 100), (66, 64), stride=2),
        problem((2, 64, 4, 5, 6), (64, 64), stride=2),
    ]


@each_solver
def test_the_conformance_kit_finds_nothing(solver: Strassen, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    report = assert_solver(solver, device, shapes=shapes(solver), every_variant=False)
    assert not report.rejected


@each_solver
def test_narrow_register_tile(solver: Strassen, convfind_device: Device) -> None:
    device = of_instructions(on_cpu(convfind_device), "aarch64")
    assert_solver(solver, device, shapes=shapes(solver)[:5], every_variant=False)


@each_solver
def test_what_has_no_halves_is_refused(solver: Strassen, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    whole = shapes(solver)[0]
    strict = replace(whole, accuracy=AccuracyClass.STRICT)
    for x, w, padding, reason in (
        ((2, 64, 7, 7), (64, 64, 1, 1), 0, Reason.SIZE_LIMIT),
        ((2, 65, 8, 8), (64, 65, 1, 1), 0, Reason.CHANNELS),
        ((2, 64, 8, 8), (65, 64, 1, 1), 0, Reason.CHANNELS),
        ((2, 32, 8, 8), (64, 32, 1, 1), 0, Reason.CHANNELS),
        ((2, 64, 8, 8), (64, 64, 3, 3), 0, Reason.FILTER_SIZE),
        ((2, 64, 8, 8), (64, 64, 1, 1), 1, Reason.PADDING),
    ):
        answer = solver.takes(
            ConvProblem.create(solver.direction, x, w, padding=padding), device.target
        )
        assert isinstance(answer, Rejected)
        assert answer.reason is reason
    assert isinstance(solver.takes(whole, device.target), Applicable)
    answer = solver.takes(strict, device.target)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.ACCURACY
    assert solver.mixes_values(whole)


def test_a_strided_gradient_is_refused(convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    for solver in SOLVERS:
        strided = ConvProblem.create(solver.direction, (2, 64, 8, 8), (64, 64, 1, 1), stride=2)
        answer = solver.takes(strided, device.target)
        assert isinstance(answer, Rejected) is (solver.direction is Direction.BACKWARD_DATA)


@each_solver
def test_images_have_no_part_in_each_other(solver: Strassen, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    problem = ConvProblem.create(solver.direction, (4, 64, 8, 8), (64, 64, 1, 1))
    solution = solver.solution(problem, device.target)
    source = "x" if solver.direction is Direction.FORWARD else "y"
    result = solver.direction.writes
    rng = np.random.default_rng(0)
    loaded = {
        program: device.load(program, device.compile(program)) for program in solution.programs
    }
    run = device.invoker(tuple(solution.unbound_steps), loaded)
    workspace = device.upload(np.zeros(solution.total_workspace, np.uint8))
    data = {name: rng.random(problem.shape(name), np.float32) for name in "xwy"}
    results = []
    for last in (1.0, np.nan):
        data[source][3] = last
        buffers = {name: device.upload(tensor.copy()) for name, tensor in data.items()}
        buffers[result] = device.allocate(data[result].nbytes)
        run(InvokeArgs(x=buffers["x"], w=buffers["w"], y=buffers["y"], workspace=workspace))
        results.append(np.empty(problem.shape(result), np.float32))
        device.read(buffers[result], results[-1])
    plain, with_nan = results
    assert np.isnan(with_nan[3]).all()
    np.testing.assert_array_equal(with_nan[:3], plain[:3])
