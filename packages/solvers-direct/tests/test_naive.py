"""The naive solvers take everything, and are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convfind.checking.random_data import random_data
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.device.target import Target
from convfind.errors import DeviceError, SettingsError
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device, InvokeArgs
from convfind.runtime.tensors import tensor_view
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch
from convfind.testing import MOCK_TARGET, assert_solver, edge_cases, variants
from convfind.testing.guarded_run import POISON, GuardedRunner
from convfind.testing.tensors import Bytes, filled_memory
from convfind.types import Direction
from convfind_solvers_direct.naive import (
    NaiveSolver,
)

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS: dict[Direction, NaiveSolver] = {
    Direction.FORWARD: NaiveSolver(Direction.FORWARD),
    Direction.BACKWARD_DATA: NaiveSolver(Direction.BACKWARD_DATA),
    Direction.BACKWARD_WEIGHTS: NaiveSolver(Direction.BACKWARD_WEIGHTS),
}

each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=lambda s: s.solver_id)


def without(target: Target, feature: str) -> Target:
    return replace(target, identity="", features=target.features - {feature})


@each_solver
def test_the_conformance_kit_finds_nothing(solver: NaiveSolver, convfind_device: Device) -> None:
    report = assert_solver(solver, convfind_device)
    assert len(report.problems) > 300


def test_nothing_of_the_solver_s_direction_is_refused() -> None:
    for case in edge_cases():
        for problem in (variant.plain() for variant in variants(case)):
            for direction, solver in SOLVERS.items():
                answer = solver.takes(problem, MOCK_TARGET)
                if direction is problem.direction:
                    assert answer, problem
                else:
                    assert isinstance(answer, Rejected)
                    assert answer.reason is Reason.DIRECTION


@each_solver
def test_no_feature_of_the_device_is_needed_but_fp64_for_float64(solver: NaiveSolver) -> None:
    bare = without(without(without(MOCK_TARGET, "fp64"), "fp16"), "int8")
    for case in edge_cases():
        for problem in variants(case.with_direction(solver.direction)):
            answer = solver.takes(problem.plain(), bare)
            if isinstance(answer, Rejected) and answer.reason is not Reason.DIRECTION:
                assert answer == Rejected(Reason.FEATURE, "float64 needs fp64")
                assert problem.dtype == "float64"


@pytest.mark.parametrize(
    "problem",
    [
        ConvProblem.forward((1, 1, 2**31), (1, 1, 1)),
        ConvProblem.forward((2**31, 1, 1), (1, 1, 1)),
        ConvProblem.forward((1, 1, 1), (1, 1, 1), padding=2**31, stride=2**30),
    ],
    ids=["axis", "batch", "padding"],
)
def test_an_axis_beyond_32_bits_is_refused(problem: ConvProblem) -> None:
    answer = NaiveSolver(Direction.FORWARD).takes(problem, MOCK_TARGET)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.SIZE_LIMIT


@each_solver
def test_strides_and_dilations_beyond_32_bits_do_not_matter(
    solver: NaiveSolver, convfind_device: Device
) -> None:
    problem = ConvProblem.create(
        solver.direction, (2, 3, 5), (4, 3, 1), stride=2**40, dilation=2**40, padding=1
    )
    assert_solver(solver, convfind_device, shapes=[problem], every_variant=False)


def test_whole_scaling_factors_are_exact_and_wrap(convfind_device: Device) -> None:
    shapes = [
        ConvProblem.forward((2, 6, 8, 9), (4, 6, 3, 3), dtype="int8", alpha=alpha, beta=beta)
        for alpha, beta in ((-3.0, 2.0), (2.0**31 + 3, 0.0), (1.0, -(2.0**33) - 1))
    ]
    assert_solver(
        NaiveSolver(Direction.FORWARD), convfind_device, shapes=shapes, every_variant=False
    )


@pytest.mark.parametrize("direction", Direction)
def test_double_accumulation_leaves_one_rounding(
    direction: Direction, convfind_device: Device
) -> None:
    if not convfind_device.target.has("fp64"):
        pytest.skip(f"{convfind_device.target.name} has no fp64")
    solver = SOLVERS[direction]
    problem = ConvProblem.create(direction, (8, 40, 24, 24), (40, 40, 3, 3), padding=1)
    errors = {}
    for accumulate in ("float", "double"):
        config = Config(accumulate=accumulate)
        solution = solver.solution(problem, convfind_device.target, config)
        assert solution.config == config
        first, second = random_data(problem, 0)
        numbers = dict(zip(direction.reads, (first, second), strict=True))
        memory = {name: filled_memory(problem, name, numbers.get(name), POISON) for name in "xwy"}
        outcome = GuardedRunner(convfind_device).run(problem, solution, memory)
        result = tensor_view(problem, direction.writes, outcome.result).astype(np.float64)
        error = np.abs(result - reference_convolution(problem, first, second))
        errors[accumulate] = (error / reference_magnitude(problem, first, second)).max()
    assert errors["double"] <= 2.0**-24
    assert errors["double"] < errors["float"]


def test_double_accumulation_needs_fp64() -> None:
    problem = ConvProblem.forward((1, 1, 4, 4), (1, 1, 3, 3))
    with pytest.raises(SettingsError, match="float: mock device has no fp64"):
        NaiveSolver(Direction.FORWARD).solution(
            problem, without(MOCK_TARGET, "fp64"), Config(accumulate="double")
        )
    with pytest.raises(SettingsError, match="'triple' is not a legal value; legal: float, double"):
        NaiveSolver(Direction.FORWARD).solution(problem, MOCK_TARGET, Config(accumulate="triple"))


@each_solver
def test_kernels_compile_alone(solver: NaiveSolver, convfind_device: Device) -> None:
    problem = ConvProblem.create(solver.direction, (1, 1, 4, 4), (1, 1, 3, 3))
    (program,) = solver.solution(problem, convfind_device.target).programs
    assert convfind_device.compile(Program(program.source))


def test_work_groups_keep_the_limit_of_the_device() -> None:
    problem = ConvProblem.forward((1, 8, 20, 20), (8, 8, 3, 3))
    for limit in (1, 2, 48, 64, 1024):
        target = replace(MOCK_TARGET, identity="", max_work_group=limit)
        (launch,) = NaiveSolver(Direction.FORWARD).solution(problem, target).steps
        assert isinstance(launch, Launch)
        assert np.prod(launch.local_size) <= min(limit, 64)


@pytest.mark.parametrize(
    ("x", "out_channels", "items"),
    [
        ((2**16, 1, 2**14, 2**14), 2**16, (2**28, 2**15, 2**15)),
        ((1, 1, 2**16, 2**16), 3, (2**30, 3, 1)),
    ],
)
def test_launches_keep_the_limits_of_runtimes(
    x: tuple[int, ...], out_channels: int, items: tuple[int, ...]
) -> None:
    problem = ConvProblem.forward(x, (out_channels, 1, 1, 1))
    (launch,) = NaiveSolver(Direction.FORWARD).solution(problem, MOCK_TARGET).steps
    assert isinstance(launch, Launch)
    assert launch.global_size == items


def test_kernels_loop_over_what_is_beyond_a_launch(
    convfind_device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convfind_solvers_direct.naive._MOST_ITEMS", (64, 2, 1))
    shapes = [
        ConvProblem.create(direction, (3, 10, 11, 13), (7, 10, 3, 3), layout=layout)
        for direction in Direction
        for layout in ("NCHW", "NHWC")
    ]
    for problem in shapes:
        assert_solver(
            SOLVERS[problem.direction], convfind_device, shapes=[problem], every_variant=False
        )


def aligned_zeros(size: int) -> Bytes:
    """Memory that devices can use in place; pages that nobody touches do not exist."""
    memory = np.zeros(size + 4096, np.uint8)
    start = -memory.__array_interface__["data"][0] % 4096
    return memory[start : start + size]


def test_tensors_beyond_two_gibi_elements(convfind_device: Device) -> None:
    far = 2**31 + 64
    problem = ConvProblem.forward(
        (2, 3, 8), (2, 3, 3), dtype="int8", x_strides=(far, 8, 1), y_dtype="float32"
    )
    x, w = random_data(problem, 0)
    x_memory = aligned_zeros(problem.nbytes("x"))
    y_memory = aligned_zeros(problem.nbytes("y"))
    tensor_view(problem, "x", x_memory)[...] = x
    solution = NaiveSolver(Direction.FORWARD).solution(problem, convfind_device.target)
    (program,) = solution.programs
    loaded = convfind_device.load(program, convfind_device.compile(program))
    try:
        buffers = [convfind_device.wrap_output(memory) for memory in (x_memory, y_memory)]
    except DeviceError as error:
        pytest.skip(f"no memory of {problem.nbytes('x')} bytes: {error}")
    if None in buffers:
        pytest.skip("the device does not share the host's memory")
    args = InvokeArgs(x=buffers[0], w=convfind_device.upload(w), y=buffers[1])
    convfind_device.invoker(solution.steps, {program: loaded})(args)
    convfind_device.synchronize()
    assert np.array_equal(tensor_view(problem, "y", y_memory), reference_convolution(problem, x, w))
