"""The example keeps the contract of a solver, and is the fastest where it applies."""

from __future__ import annotations

from dataclasses import replace

import pytest

import convfind
from convfind.device.target import DeviceKind
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import MOCK_TARGET, assert_solver, check_solver
from convfind_example_solver import hooks
from convfind_example_solver.pointwise import PointwiseForward

pytest_plugins = ["convfind.testing.fixtures"]

CPU = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU)
PLAIN = ConvProblem.forward((2, 16, 12, 12), (4, 16, 1, 1))

SHAPES = [
    ConvProblem.forward((n, c, h, w), (k, c, 1, 1))
    for n, c, h, w, k in [
        (1, 1, 8, 16, 1),  # least of everything
        (2, 16, 16, 16, 4),
        (3, 5, 11, 13, 3),  # tiles overlap
        (1, 24, 23, 29, 2),
        (2, 3, 40, 41, 1),
        (2, 7, 1, 131, 4),
    ]
]


def test_the_conformance_kit_finds_nothing(convfind_device: Device) -> None:
    if not PointwiseForward().takes(PLAIN, convfind_device.target):
        pytest.skip(f"made for CPU devices, not {convfind_device.target.name}")
    report = assert_solver(PointwiseForward(), convfind_device, shapes=SHAPES)
    assert len(report.problems) == len(SHAPES)


def test_every_config_is_right(convfind_device: Device) -> None:
    solver = PointwiseForward()
    if not solver.takes(PLAIN, convfind_device.target):
        pytest.skip(f"made for CPU devices, not {convfind_device.target.name}")
    problem = ConvProblem.forward((2, 5, 10, 13), (3, 5, 1, 1))
    configs = list(solver.search_space(problem, convfind_device.target))
    assert len(configs) > 20
    for config in configs:

        class Tuned(PointwiseForward):
            """The solver with this config for default."""

            def default_config(
                self, *_: object, config: convfind.Config = config
            ) -> convfind.Config:
                return config

        report = check_solver(Tuned(), convfind_device, shapes=[problem], every_variant=False)
        assert report.ok, f"{config}: {report}"


def test_the_space_shrinks_with_the_output_channels() -> None:
    solver = PointwiseForward()
    for out_channels in range(1, 5):
        problem = ConvProblem.forward((1, 4, 12, 12), (out_channels, 4, 1, 1))
        space = solver.search_space(problem, CPU)
        assert solver.default_config(problem, CPU) in space
        assert max(config.integer("tile_k") for config in space) <= out_channels


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"layout": "NHWC"}, Reason.LAYOUT),
        ({"w_layout": "NHWC"}, Reason.LAYOUT),
        ({"dtype": "float16"}, Reason.DTYPE),
        ({"w": (2, 16, 3, 3)}, Reason.FILTER_SIZE),
        ({"stride": 2}, Reason.STRIDE),
        ({"padding": 1}, Reason.PADDING),
        ({"x_strides": (4096, 150, 12, 1)}, Reason.NON_PACKED),
        ({"groups": 2, "w": (4, 8, 1, 1)}, Reason.GROUPS),
        ({"beta": 1.0}, Reason.SCALING),
        ({"w": (5, 16, 1, 1)}, Reason.CHANNELS),
        ({"x": (2, 16, 11, 11)}, Reason.SIZE_LIMIT),
    ],
)
def test_refusals_carry_their_reason(changes: dict[str, object], reason: Reason) -> None:
    options: dict[str, object] = {"x": PLAIN.x_shape, "w": PLAIN.w_shape, **changes}
    answer = PointwiseForward().takes(ConvProblem.forward(**options), CPU)  # type: ignore[arg-type]
    assert isinstance(answer, Rejected)
    assert answer.reason is reason


def test_other_directions_and_devices_are_refused() -> None:
    solver = PointwiseForward()
    assert solver.takes(PLAIN, CPU)
    gpu = replace(CPU, identity="", kind=DeviceKind.GPU)
    for problem, target, reason in (
        (PLAIN, gpu, Reason.DEVICE_KIND),
        (PLAIN.with_direction("backward-data"), CPU, Reason.DIRECTION),
        (PLAIN.with_direction("backward-weights"), CPU, Reason.DIRECTION),
    ):
        answer = solver.takes(problem, target)
        assert isinstance(answer, Rejected)
        assert answer.reason is reason


def test_the_hook_registers_the_solver() -> None:
    registry = Registry.build([hooks], load_entry_points=False)
    assert not registry.failures
    assert [solver.solver_id for solver in registry.solvers] == ["example-pointwise-fwd"]


@pytest.mark.parametrize(
    ("x", "out_channels"),
    [((4, 16, 56, 56), 3), ((1, 64, 224, 224), 1), ((1, 32, 128, 128), 3), ((4, 3, 64, 64), 3)],
)
def test_a_find_measures_it_beside_others(x: tuple[int, ...], out_channels: int) -> None:
    problem = ConvProblem.forward(x, (out_channels, x[1], 1, 1))
    with convfind.open("opencl:cpu") as handle:
        found = handle.find(problem, mode="NORMAL")
    by_id = {solution.solver: solution for solution in found.solutions}
    assert len(by_id) > 1
    assert by_id["example-pointwise-fwd"].time_origin == "measured"
