"""The GEMM solvers: right results, workspace limits, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from devices_for_tests import as_written

from convfind.checking.random_data import integer_data
from convfind.checking.reference import reference_convolution
from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.tensors import tensor_view
from convfind.solver import Solver, TunableSolver
from convfind.solver.applicability import Rejected
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch, Recipe
from convfind.testing import MOCK_TARGET, assert_solver, edge_cases
from convfind.testing.guarded_run import POISON, GuardedRunner
from convfind.testing.tensors import filled_memory
from convfind.types import Direction, Layout
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.gemm.solver_list import solvers

SOLVERS = solvers()
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)

CPU = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU, arch="x86-64-avx512")
GPU = replace(
    CPU,
    identity="",
    kind=DeviceKind.GPU,
    arch="sm_90",
    compute_units=132,
    local_memory=48 * 1024,
    max_work_group=1024,
)
each_target = pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])

#: Images of several chunks, sums of several parts, columns that a chunk cuts in the middle.
LARGE = (
    ConvProblem.forward((5, 4, 48, 49), (8, 4, 3, 3), padding=1),
    ConvProblem.forward((5, 4, 50, 50), (8, 4, 1, 1), alpha=0.5, beta=2.0),
    ConvProblem.forward((2, 4, 61, 30), (6, 2, 3, 3), stride=(3, 2), groups=2, padding=(0, 2)),
    ConvProblem.forward((2, 3, 2000), (4, 3, 7), stride=2, dilation=3, beta=1.0),
    ConvProblem.forward((1, 2, 6, 15, 16), (3, 2, 2, 3, 3), stride=(2, 1, 1), padding=(1, 1, 0)),
)


@pytest.fixture(scope="session")
def as_gpu(device: OpenCLDevice) -> Iterator[OpenCLDevice]:
    """The device with the kernels for GPUs, whatever it is."""
    target = replace(device.target, identity="", kind=DeviceKind.GPU, compute_units=8)
    opened = OpenCLDevice(target, device.context, device.queue)
    is_cpu = device.target.kind is DeviceKind.CPU
    # What a CPU optimises is its own code, which never gets these kernels.
    yield cast("OpenCLDevice", as_written(opened)) if is_cpu else opened
    opened.close()


def taker(problem: ConvProblem, target: Target) -> TunableSolver:
    """The one solver that takes a problem."""
    (solver,) = (s for s in SOLVERS if s.takes(problem, target))
    assert isinstance(solver, TunableSolver)
    return solver


def directions(problem: ConvProblem) -> Iterator[ConvProblem]:
    for direction in Direction:
        first = problem.with_direction(direction)
        last = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[problem.spatial_rank]
        yield first
        yield ConvProblem.create(
            direction,
            problem.x_shape,
            problem.w_shape,
            stride=problem.stride,
            padding=tuple(zip(problem.padding, problem.padding_end, strict=True)),
            dilation=problem.dilation,
            groups=problem.groups,
            alpha=problem.alpha,
            beta=problem.beta,
            layout=last,
        )


@each_solver
def test_the_conformance_kit_finds_nothing(solver: Solver, device: OpenCLDevice) -> None:
    report = assert_solver(solver, device)
    assert len(report.problems) > 10


@each_solver
def test_nor_with_the_kernels_for_gpus(solver: Solver, as_gpu: OpenCLDevice) -> None:
    assert_solver(solver, as_gpu, shapes=edge_cases()[::2])


def assert_exact(runner: GuardedRunner, problem: ConvProblem, solution: Recipe) -> None:
    """Run on whole numbers, on which sums are exact in any order."""
    writes = problem.direction.writes
    first, second = integer_data(problem, 0)
    shape = problem.tensor_layout(writes).to_memory(problem.shape(writes))
    before = np.random.default_rng(1).integers(-2, 3, shape).astype("f")
    numbers = {**dict(zip(problem.direction.reads, (first, second), strict=True)), writes: before}
    memory = {
        name: filled_memory(
            problem, name, value if name != writes or problem.beta else None, POISON
        )
        for name, value in numbers.items()
    }
    outcome = runner.run(problem, solution, memory)
    assert outcome.complaints == [], (problem, outcome.complaints)
    result = tensor_view(problem, writes, outcome.result)
    expected = reference_convolution(problem, first, second, before)
    assert np.array_equal(result, expected), (problem, solution.workspace)


def test_chunks_and_partial_sums_are_right(device: OpenCLDevice, as_gpu: OpenCLDevice) -> None:
    """Also where a chunk ends within an image, and elements of x lie on both sides of it."""
    for place in (device, as_gpu):
        runner = GuardedRunner(place)
        for problem in LARGE:
            for turned in directions(problem):
                solver = taker(turned, place.target)
                full = solver.workspace_size(turned, place.target)
                for limit in sorted({full, full * 2 // 3, full // 4, full // 50}):
                    if solver.workspace_size(turned, place.target, limit) <= limit:
                        solution = solver.solution(turned, place.target, None, limit)
                        assert_exact(runner, turned, solution)


def test_each_chunk_size_gives_the_same(device: OpenCLDevice) -> None:
    problem = ConvProblem.forward((3, 24, 64, 64), (8, 24, 5, 5), padding=2)
    runner = GuardedRunner(device)
    for turned in directions(problem):
        solver = taker(turned, device.target)
        default = solver.default_config(turned, device.target)
        (chunk,) = (
            p
            for p in solver.search_space(turned, device.target).parameters
            if p.name == "chunk_mib"
        )
        counts = set()
        for mib in chunk.values[:5]:
            solution = solver.solution(turned, device.target, default.replace(chunk_mib=mib))
            assert_exact(runner, turned, solution)
            counts.add(len(solution.steps))
        # The weight gradient may take all images at once to split its sum among many units.
        assert len(counts) > 2 or turned.direction is Direction.BACKWARD_WEIGHTS


@each_target
def test_a_solution_is_rebuilt_from_its_workspace(target: Target) -> None:
    large = ConvProblem.forward((37, 24, 45, 46), (40, 24, 3, 3), padding=1)
    for problem in (*LARGE, large, ConvProblem.forward((70, 8, 20, 20), (8, 8, 1, 1))):
        for turned in directions(problem):
            solver = taker(turned, target)
            config = solver.default_config(turned, target)
            full = solver.workspace_size(turned, target)
            for limit in (None, *(full * part // 11 for part in range(12))):
                found = solver.solution(turned, target, config, limit)
                again = solver.solution(turned, target, config, found.total_workspace)
                assert again == found
                assert found.total_workspace == solver.workspace_size(turned, target, limit)


@each_target
@pytest.mark.parametrize("direction", Direction)
def test_columns_fit_the_limit_or_say_that_they_cannot(
    direction: Direction, target: Target
) -> None:
    problem = ConvProblem.create(direction, (6, 16, 64, 64), (16, 16, 3, 3), padding=1)
    solver = taker(problem, target)
    image = 16 * 9 * 64 * 64 * 4
    smallest = solver.workspace_size(problem, target, 0)
    assert 0 < smallest <= 16 * 9 * 64 * 4
    assert solver.workspace_size(problem, target, image) <= image
    assert solver.workspace_size(problem, target, image // 3) <= image // 3
    launches = [
        len(solver.solution(problem, target, workspace_limit=limit).steps)
        for limit in (smallest, image // 3, image, None)
    ]
    assert launches == sorted(launches, reverse=True)


def test_a_tile_that_spills_is_no_default() -> None:
    first = ConvProblem.backward_data((64, 128, 28, 28), (128, 128, 3, 3), padding=1)
    last = replace(first, x_layout=Layout.NHWC, w_layout=Layout.NHWC, y_layout=Layout.NHWC)
    # Weights are a transposed operand where channels come first, and none where they come last.
    for problem, is_crowded in ((first, True), (last, False)):
        config = taker(problem, GPU).default_config(problem, GPU)
        tile = config.integer("tile_m"), config.integer("tile_n")
        assert (tile == (128, 128)) is is_crowded


@each_target
def test_pointwise_products_need_no_workspace(target: Target) -> None:
    problem = ConvProblem.forward((4, 64, 56, 56), (64, 64, 1, 1))
    for direction in (Direction.FORWARD, Direction.BACKWARD_DATA):
        turned = problem.with_direction(direction)
        solution = taker(turned, target).solution(turned, target)
        assert solution.workspace == 0
        assert len(solution.steps) == 1
    weights = problem.with_direction(Direction.BACKWARD_WEIGHTS)
    solver = taker(weights, target)
    assert solver.workspace_size(weights, target) > 0
    assert solver.workspace_size(weights, target, 0) == 0


@each_solver
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8"])
def test_other_types_are_refused(solver: Solver, dtype: str) -> None:
    for problem in (
        ConvProblem.forward((1, 4, 4, 4), (4, 4, 1, 1), dtype=dtype),
        ConvProblem.forward((1, 4, 4, 4), (4, 4, 3, 3), dtype=dtype),
    ):
        for direction in Direction:
            if dtype == "int8" and direction is not Direction.FORWARD:
                continue
            answer = solver.takes(problem.with_direction(direction), CPU)
            assert isinstance(answer, Rejected)
            if direction.short in solver.solver_id:
                assert answer == Rejected(Reason.DTYPE, f"is for float32, not {dtype}")


@each_target
def test_every_packed_problem_of_one_layout_has_one_solver(target: Target) -> None:
    for case in edge_cases():
        plain = case.plain()
        if plain.is_packed:
            for direction in Direction:
                taker(plain.with_direction(direction), target)


def test_other_tensors_and_devices_are_refused() -> None:
    x, w = (2, 4, 6, 7), (5, 4, 3, 3)
    mixed = ConvProblem.forward(x, w, y_layout="NHWC")
    gaps = ConvProblem.forward(x, w, x_strides=(400, 80, 10, 1))
    huge = ConvProblem.forward((1, 1, 2**16, 2**16), (1, 1, 3, 3))
    small = replace(GPU, identity="", local_memory=1024)
    narrow = replace(GPU, identity="", max_work_group=32)
    ordinary = ConvProblem.forward(x, w)
    # NVIDIA's compiler grants more than the device reports.
    amd = replace(small, identity="", arch="gfx90a", features=frozenset())
    for problem, target, reason in (
        (mixed, CPU, Reason.LAYOUT),
        (gaps, CPU, Reason.NON_PACKED),
        (huge, CPU, Reason.SIZE_LIMIT),
        (ordinary, amd, Reason.LOCAL_MEMORY),
        (ordinary, narrow, Reason.WORK_GROUP),
    ):
        answers = [solver.takes(problem, target) for solver in SOLVERS]
        assert reason in {a.reason for a in answers if isinstance(a, Rejected)}
        assert not any(answers)


@each_target
def test_the_index_is_a_share_of_the_peak(target: Target) -> None:
    cases = [case.plain() for case in edge_cases()]
    for problem in (*cases, ConvProblem.forward((8, 512, 56, 56), (512, 512, 1, 1))):
        for solver in SOLVERS:
            if solver.takes(problem, target):
                index = solver.wti(problem, target)
                assert index is not None
                assert 0.0 < index <= 0.85


def test_sums_of_many_images_are_launched_in_bounded_number() -> None:
    problem = ConvProblem.backward_weights((100_000, 2, 3, 3), (2, 2, 3, 3), padding=1)
    for target in (CPU, GPU):
        solution = taker(problem, target).solution(problem, target)
        assert len(solution.steps) < 5000


def test_kernels_compile_alone(device: OpenCLDevice) -> None:
    alone = set()
    for solver in SOLVERS:
        size = 1 if "pointwise" in solver.solver_id else 3
        for direction in Direction:
            for layout in ("NCHW", "NHWC"):
                weights = (4, 4, size, size)
                problem = ConvProblem.create(direction, (1, 4, 4, 4), weights, layout=layout)
                if solver.takes(problem, device.target):
                    for step in solver.solution(problem, device.target).steps:
                        assert isinstance(step, Launch)
                        program = step.kernel.program
                        alone.add(Program(program.source, program.language))
    assert len(alone) > 2
    for program in alone:
        assert device.compile(program)
