"""A 1x1 convolution and the depthwise one behind it are right as one, whatever the edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.device.target import DeviceKind
from convfind.errors import NoSolverError, ProblemError
from convfind.problem import Activation
from convfind.runtime.backend import Device
from convfind_operators import PointwiseDepthwiseProblem, solver_of
from convfind_operators.pointwise_depthwise_solver import PointwiseDepthwiseSolver
from convfind_operators.testing import assert_operator

torch = pytest.importorskip("torch")

RELU, SILU = Activation("relu"), Activation("silu")
CLIPS = {"inner": Activation("clip", 0.0, 6.0), "outer": Activation("clip", -1.0, 1.0)}


def made(**fields: Any) -> PointwiseDepthwiseProblem:
    usual = {"x": (1, 5, 9, 7), "filters": 16, "size": 3, "channels_last": True}
    return PointwiseDepthwiseProblem(**{**usual, **fields})


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2, 64])
@pytest.mark.parametrize(
    "fields",
    [
        {"x": (2, 5, 9, 7), "filters": 20, "padding": 1},
        {"x": (1, 24, 13, 57), "filters": 32, "stride": 2, "padding": 1, **CLIPS},
        {"x": (1, 3, 2, 2), "filters": 17, "padding": 1, "inner": SILU, "outer": SILU},
        {"x": (1, 16, 7, 7), "size": 5, "padding": 2, "stride": 2},
        {"x": (2, 3, 8, 8), "size": (2, 3), "padding": (0, 2), "padding_end": (1, 0)},
        {"x": (1, 3, 30, 5), "filters": 40, "size": (3, 1), "stride": (4, 2)},
        {"x": (1, 2, 3, 1), "size": (1, 1), "inner": RELU, "outer": RELU},
        {"x": (1, 2, 1, 200), "size": 3, "padding": 4},
        {"x": (0, 2, 3, 5)},
    ],
    ids=str,
)
def test_both_convolutions_as_one_are_right(
    convfind_device: Device, fields: dict[str, Any], cores: int
) -> None:
    target = replace(convfind_device.target, compute_units=cores)
    if target.kind is not DeviceKind.CPU:
        pytest.skip("nobody takes it on other devices")
    assert_operator(made(**fields), convfind_device, target=target)


@pytest.mark.slow
def test_tiles_of_many_registers_are_right(convfind_device: Device) -> None:
    target = replace(convfind_device.target, arch="x86-64-avx512")
    if target.kind is not DeviceKind.CPU:
        pytest.skip("nobody takes it on other devices")
    for size in ((9, 7), (28, 11), (3, 41)):
        assert_operator(made(x=(1, 19, *size), padding=1), convfind_device, target=target)


def test_the_reference_is_that_of_two_convolutions() -> None:
    problem = made(filters=6, stride=2, padding=(1, 0), padding_end=(0, 1), inner=RELU, outer=SILU)
    inputs = problem.draw(np.random.default_rng(3))
    x, w, bias, taps, depthwise_bias = (
        torch.from_numpy(inputs[name].astype(np.float64)) for name in problem.reads
    )
    between = torch.relu(torch.nn.functional.conv2d(x, w, bias))
    between = torch.nn.functional.pad(between, (0, 1, 1, 0))
    sums = torch.nn.functional.conv2d(between, taps, depthwise_bias, stride=2, groups=6)
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    got = problem.reference(wide)["y"]
    np.testing.assert_allclose(got, torch.nn.functional.silu(sums).numpy(), atol=1e-12)


def test_bands_of_rows_give_all_cores_work_and_cover_all_rows(convfind_device: Device) -> None:
    solver = PointwiseDepthwiseSolver(PointwiseDepthwiseProblem)
    problem = made(x=(1, 8, 56, 56), filters=144, padding=1)
    for cores in (1, 2, 3, 16, 64):
        target = replace(convfind_device.target, kind=DeviceKind.CPU, compute_units=cores)
        (launch,) = solver.steps(problem, target)
        (across, blocks), rows = launch.global_size, launch.arguments[-10].value  # type: ignore[union-attr]
        assert blocks == 9
        assert across * blocks >= 0.9 * cores
        assert (across - 1) * rows < 56 <= across * rows


@pytest.mark.parametrize(
    "changed",
    [
        {"channels_last": False},
        {"dtype": "float16"},
        {"inner": RELU},
        {"inner": RELU, "outer": SILU},
        {"x": (1, 2, 3, 9000)},
        {"x": (1, 2**27, 3, 3)},
        {"filters": 2**27},
        {"x": (2**20, 2, 2**10, 3)},
        {"strides": {"y": (1120, 1, 160, 32)}},
    ],
    ids=str,
)
def test_what_kernels_do_not_know_is_refused(
    convfind_device: Device, changed: dict[str, Any]
) -> None:
    with pytest.raises(NoSolverError):
        solver_of(made(**changed), replace(convfind_device.target, kind=DeviceKind.CPU))


def test_other_devices_are_refused(convfind_device: Device) -> None:
    with pytest.raises(NoSolverError, match="CPUs only"):
        solver_of(made(), replace(convfind_device.target, kind=DeviceKind.GPU))


@pytest.mark.parametrize(
    "changed", [{"x": (1, 2, 3)}, {"filters": 0}, {"dtype": "int8"}, {"size": 12}], ids=str
)
def test_what_is_no_such_problem_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ProblemError):
        _ = made(**changed).operands
