"""Shapes that hypothesis draws for the tests of solvers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from devices_for_tests import as_written, repeats_another
from hypothesis import HealthCheck, assume, given, settings
from hypothesis.strategies import SearchStrategy

from convfind.device.target import DeviceKind
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device
from convfind.solver import Solver
from convfind.testing import assert_solver


def legal(make: Callable[[], ConvProblem], count: int) -> list[ConvProblem]:
    """Make so many problems, less those that cannot be; without any the example is no use."""
    found = []
    for _ in range(count):
        with suppress(ProblemError):
            found.append(make())
    assume(found)
    return found


def assert_drawn(
    solver: Solver,
    device: Device,
    problems: SearchStrategy[list[ConvProblem]],
    *,
    examples: int = 2,
    refuses: bool = True,
) -> None:
    """`assert_solver` for lists of problems; whether the solver may refuse some.

    Every runtime gets the kernels in other tests, optimised. Which shapes are computed wrongly does
    not depend on it, and each drawn one is a program more.
    """
    if repeats_another(device):
        pytest.skip("drawn shapes run on the CPU's other runtime")
    if device.target.kind is DeviceKind.CPU:
        device = as_written(device)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(shapes=problems)
    def check(shapes: list[ConvProblem]) -> None:
        report = assert_solver(solver, device, shapes=shapes, every_variant=False)
        assert refuses or not report.rejected

    check()
