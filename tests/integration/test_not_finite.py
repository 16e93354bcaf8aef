"""NaN and infinity reach exactly the results that read them, in every solver that says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import devices_for_tests
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import convfind
from convfind.errors import ProblemError
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device
from convfind.solver import Solver
from convfind.testing.device_checks import CorrectRun
from convfind.testing.guarded_run import GuardedRunner
from convfind.testing.non_finite_checks import NonFiniteChecks
from convfind.testing.numbers import Numbers
from convfind.testing.report import SolverReport
from convfind.types import AccuracyClass, Direction, Layout

DIRECTIONS = list(Direction)


@pytest.fixture(scope="module")
def cpu() -> Iterator[Device]:
    device = default_registry().backends["opencl"].open("cpu")
    yield device
    device.close()


def problem_of(
    direction: Direction,
    channels_last: bool,
    x: tuple[int, ...],
    w: tuple[int, ...],
    **options: Any,
) -> ConvProblem:
    layout = Layout.of(len(x) - 2, channels_last=channels_last)
    return ConvProblem.create(direction, x, w, layout=layout, **options)


@st.composite
def problems(draw: st.DrawFn, direction: Direction) -> list[ConvProblem]:
    """Some problems whose rows fill no vectors, of few and of many channels a group."""
    found = []
    for _ in range(3):
        groups = draw(st.sampled_from((1, 1, 3, 8)))
        channels, filters = draw(st.sampled_from(((1, 1), (3, 16), (4, 4), (7, 5), (17, 33))))
        window = draw(st.sampled_from(((3, 3), (1, 1), (5, 5), (2, 3), (1, 7))))
        with suppress(ProblemError):
            found.append(
                problem_of(
                    direction,
                    draw(st.booleans()),
                    (2, groups * channels, draw(st.integers(5, 16)), draw(st.integers(5, 64))),
                    (groups * filters, channels, *window),
                    groups=groups,
                    stride=draw(st.sampled_from((1, 2, 3))),
                    dilation=draw(st.sampled_from((1, 1, 2))),
                    padding=draw(st.sampled_from((0, 1, (1, 2)))),
                )
            )
    assume(found)
    return found


def complaints(solvers: list[Solver], device: Device, found: list[ConvProblem]) -> list[str]:
    """What is wrong with the solvers that mix no values."""
    runner = GuardedRunner(device)
    wrong = []
    for solver in solvers:
        report = SolverReport(solver.solver_id, device.target.identity)
        checks = NonFiniteChecks(report, solver, 0)
        for problem in found:
            # The others' own tests compile all of their transforms.
            if solver.takes(problem, device.target) and not solver.mixes_values(problem):
                memory = runner.memory(problem, solver.solution(problem, device.target))
                numbers = Numbers.random(problem, 0)
                checks.check(CorrectRun(memory, numbers, memory.run(numbers.memory).result))
        wrong += [f"{solver.solver_id}: {failure}" for failure in report.failures]
    return wrong


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_on_a_cpu(direction: Direction, cpu: Device) -> None:
    solvers, _ = default_registry().solvers_for(cpu.target)
    device = devices_for_tests.mostly_as_written(cpu)

    @settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
    @given(found=problems(direction))
    def check(found: list[ConvProblem]) -> None:
        assert complaints(list(solvers), device, found) == []

    check()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_on_a_cpu_that_passes_for_a_gpu(direction: Direction, cpu: Device) -> None:
    gpu = devices_for_tests.as_small_gpu(cpu)
    solvers = [
        solver
        for solver in default_registry().solvers_for(gpu.target)[0]
        if not solver.is_last_resort
    ]
    found = [
        problem_of(direction, channels_last, x, w, padding=1, **options)
        for channels_last in (False, True)
        for x, w, options in (
            ((2, 5, 9, 18), (5, 1, 3, 3), {"groups": 5}),
            ((1, 3, 11, 23), (18, 3, 3, 3), {"stride": 2}),
            ((1, 4, 5, 20), (4, 1, 3, 3), {"groups": 4}),
        )
    ]
    assert complaints(solvers, gpu, found) == []


def test_columns_that_a_stride_skips_change_no_gradient() -> None:
    problem = ConvProblem.backward_weights((1, 1, 6, 6), (1, 1, 3, 3), stride=2, accuracy="strict")
    x = np.ones(problem.x_shape, np.float32)
    x[..., 5] = np.nan
    with convfind.open("opencl:cpu") as handle:
        for solution in handle.find(problem, mode="normal").solutions:
            w = np.asarray(handle.run(solution, x=x, y=np.ones(problem.y_shape, np.float32)))
            assert (w == 4).all(), solution.solver


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_strict_accuracy_leaves_no_solver_that_mixes_values(direction: Direction) -> None:
    registry = default_registry()
    with convfind.open("opencl:cpu") as handle:
        for x, w in (((2, 64, 16, 16), (64, 64, 3, 3)), ((2, 64, 16, 16), (64, 64, 1, 1))):
            problem = problem_of(direction, False, x, w)
            mixing = {
                solver.solver_id
                for solver in registry.solvers_for(handle.target)[0]
                if solver.takes(problem, handle.target) and solver.mixes_values(problem)
            }
            strict = replace(problem, accuracy=AccuracyClass.STRICT)
            taken = {s.solver for s in handle.find(strict, mode="fast").solutions}
            assert taken
            assert not taken & mixing
