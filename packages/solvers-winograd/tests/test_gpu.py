"""The Winograd solvers for GPUs, run on whatever device there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import devices_for_tests
import pytest
from devices_for_tests import H200

from convfind.checking.accuracy import check_error, error_bound, measure_error, spread_magnitude
from convfind.checking.random_data import random_data
from convfind.checking.random_numbers import Distribution
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.runtime.tensors import tensor_view
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.kernel_spec import KernelLanguage
from convfind.solver.recipe import Launch
from convfind.testing import assert_solver
from convfind.testing.guarded_run import POISON, GuardedRunner
from convfind.testing.tensors import filled_memory
from convfind.types import AccuracyClass, DataType, Direction, Layout
from convfind_solvers_winograd.algorithms import F2X3, F6X3
from convfind_solvers_winograd.applicability import multiplies_in_tf32
from convfind_solvers_winograd.cpu import CpuSolver
from convfind_solvers_winograd.gpu import GpuSolver
from convfind_solvers_winograd.gpu_conv import ConvSolver
from convfind_solvers_winograd.gpu_fused import TILES, FusedSolver
from convfind_solvers_winograd.gpu_fused_mma import FusedMmaSolver
from convfind_solvers_winograd.gpu_narrow import NarrowSolver
from convfind_solvers_winograd.gpu_pipelined import PipelinedSolver
from convfind_solvers_winograd.gpu_product import RATES, Tile
from convfind_solvers_winograd.gpu_weights import WeightsSolver
from convfind_solvers_winograd.gpu_weights_cover import cover
from convfind_solvers_winograd.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

# Those of a form of their own have tests of their own.
SOLVERS = [
    solver
    for solver in solvers()
    if isinstance(solver, GpuSolver)
    and not isinstance(solver, (FusedMmaSolver, NarrowSolver, PipelinedSolver))
]
Tuned = ConvSolver | WeightsSolver
FUSED = [solver for solver in SOLVERS if isinstance(solver, FusedSolver)]
ORDINARY = [s for s in SOLVERS if s.transform.n == 6 and isinstance(s, Tuned)]


def each(found: Sequence[GpuSolver]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("solver", found, ids=lambda s: s.solver_id)


@pytest.fixture(scope="session")
def as_gpu(convfind_device: Device) -> Device:
    """The device as if it were a GPU with few units, whatever it is."""
    return devices_for_tests.as_gpu(convfind_device, compute_units=8, local_memory=96 * 1024)


@pytest.fixture(scope="session")
def runner(as_gpu: Device) -> GuardedRunner:
    """Compiles each program once."""
    return GuardedRunner(as_gpu)


def taps_of(solver: GpuSolver) -> int:
    """Taps of its filters along an axis."""
    weights = solver.direction is Direction.BACKWARD_WEIGHTS
    return solver.transform.m if weights else solver.transform.r


def problem_for(solver: GpuSolver, x: tuple[int, ...], filters: int, **options: Any) -> ConvProblem:
    """A problem that a solver takes, unless the options say otherwise."""
    options.setdefault("layout", Layout.NHWC if solver.channels_last else Layout.NCHW)
    options.setdefault("accuracy", AccuracyClass.RELAXED)
    taps = taps_of(solver)
    window = options.pop("window", (taps if solver.axes == 2 else 1, taps))
    w = (filters, x[1] // options.get("groups", 1), *window)
    return ConvProblem.create(options.pop("direction", solver.direction), x, w, **options)


#: Transforms of 64 points take long to compile: those of each layout with one size of filters.
KIT = [
    s
    for s in SOLVERS
    if s.transform.n < 8 or s.axes == 1 or s.channels_last is (s.transform is not F6X3)
]


@each(KIT)
def test_the_conformance_kit_finds_nothing(solver: GpuSolver, as_gpu: Device) -> None:
    shapes = [
        problem_for(solver, (2, 5, 9, 7), 3, padding=1),
        problem_for(solver, (1, 1, taps_of(solver), taps_of(solver)), 1),
        problem_for(solver, (2, 20, 9, 13), 37, padding=(2, 0)),
        problem_for(solver, (1, 70, 5, 31), 70, padding=((0, 2), (3, 1)), alpha=0.5, beta=2.0),
        problem_for(solver, (2, 12, 11, 12), 8, padding=1, groups=4),
        problem_for(solver, (1, 3, 4, 4), 2, padding=9),
    ]
    if DataType.FLOAT16 in solver.domain.dtypes:
        shapes.append(problem_for(solver, (2, 20, 6, 9), 35, padding=1, dtype=DataType.FLOAT16))
    if solver.axes == 1:
        window = (taps_of(solver), 1)
        shapes.append(problem_for(solver, (2, 12, 11, 7), 8, window=window, padding=2, groups=4))
    report = assert_solver(solver, as_gpu, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@each([s for s in ORDINARY if isinstance(s, ConvSolver)])
def test_taps_may_lie_apart(solver: GpuSolver, as_gpu: Device) -> None:
    shapes = [
        problem_for(solver, (2, 5, 13, 18), 6, padding=2, dilation=2),
        problem_for(solver, (1, 4, 37, 12), 8, padding=((1, 0), (2, 3)), dilation=(16, 1)),
    ]
    report = assert_solver(solver, as_gpu, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


def check_run(
    runner: GuardedRunner,
    target: Target,
    solver: GpuSolver,
    problem: ConvProblem,
    config: Config | None = None,
    distribution: Distribution = "uniform",
) -> None:
    """Run a config between guards, and compare with float64."""
    writes = problem.direction.writes
    first, second = random_data(problem, 0, distribution)
    numbers = dict(zip(problem.direction.reads, (first, second), strict=True))
    memory = {name: filled_memory(problem, name, numbers.get(name), POISON) for name in "xwy"}
    solution = solver.solution(problem, target, config)
    runner.load(solution)
    outcome = runner.run(problem, solution, memory)
    assert outcome.complaints == [], (problem, config)
    magnitude = spread_magnitude(
        reference_magnitude(problem, first, second),
        solver.error_reach(problem),
        channels_last=solver.channels_last,
    )
    result = tensor_view(problem, writes, outcome.result)
    error = measure_error(result, reference_convolution(problem, first, second, None), magnitude)
    bound = error_bound(problem, solver.error_bound(problem))
    assert check_error(error, bound), f"{problem.key} {config} {distribution}: {error} over {bound}"


@each([s for s in ORDINARY if s.direction is not Direction.BACKWARD_DATA])
def test_every_tile(solver: Tuned, as_gpu: Device, runner: GuardedRunner) -> None:
    problem = problem_for(solver, (2, 36, 10, 13), 72, padding=1)
    default = solver.default_config(problem, as_gpu.target)
    is_gpu = not as_gpu.target.platform.startswith("Intel")
    for number, tile in enumerate(RATES):
        # CPUs compile larger tiles for minutes; the kit has run the default.
        if not tile.fits(as_gpu.target) or not (is_gpu or tile.tile_m * tile.tile_n <= 2048):
            continue
        # Split floats are for long sums; they have tests of their own.
        if tile == Tile.of(default) or tile.splits:
            continue
        parts = {"parts": 1 + number % 3} if "parts" in default else {}
        config = default.replace(**tile.values, **parts)
        assert config in solver.search_space(problem, as_gpu.target)
        check_run(runner, as_gpu.target, solver, problem, config)


@each([s for s in SOLVERS if isinstance(s, WeightsSolver) and s.channels_last])
def test_tiles_of_gradients_may_be_short(
    solver: WeightsSolver, as_gpu: Device, runner: GuardedRunner
) -> None:
    """Of two rows of tiles one is, of three columns two."""
    r, pad = solver.transform.r, taps_of(solver) // 2
    size = (2 * r - 1, 3 * r - 2)
    found = cover(solver.transform, 48, size, 16, channels_last=True)
    assert found.whole == (1, 1)
    problem = problem_for(solver, (48, 6, *size), 10, padding=pad, groups=2)
    default = solver.default_config(problem, as_gpu.target)
    for parts in (1, 3):
        check_run(runner, as_gpu.target, solver, problem, default.replace(parts=parts))


def test_fused_tiles(as_gpu: Device, runner: GuardedRunner) -> None:
    for solver in FUSED:
        if solver.direction is Direction.FORWARD and not solver.channels_last:
            problem = problem_for(solver, (2, 36, 10, 13), 72, padding=1)
            default = solver.default_config(problem, as_gpu.target)
            for tile in TILES[solver.transform.n]:
                config = default.replace(**tile.values)
                if tile.fits(solver.transform, as_gpu.target):
                    assert config in solver.search_space(problem, as_gpu.target)
                    check_run(runner, as_gpu.target, solver, problem, config)


def test_a_fused_work_group_starts_on_nvidia() -> None:
    """Its compiler takes as many registers as 256 items have."""
    for solver in FUSED:
        solution = solver.solution(problem_for(solver, (1, 16, 16, 16), 16), H200)
        (launch,) = (step for step in solution.steps if isinstance(step, Launch))
        assert launch.local_size[0] <= 256


@each(ORDINARY + [s for s in FUSED if s.direction is Direction.FORWARD and not s.channels_last])
def test_errors_stay_in_the_stated_bound(
    solver: GpuSolver, as_gpu: Device, runner: GuardedRunner
) -> None:
    channels = (2048, 4) if solver.direction is Direction.FORWARD else (4, 2048)
    for distribution in get_args(Distribution):
        problem = problem_for(solver, (1, channels[0], 14, 14), channels[1], padding=1)
        check_run(runner, as_gpu.target, solver, problem, distribution=distribution)


@each(ORDINARY)
def test_the_batch_is_cut_where_memory_is_short(solver: GpuSolver) -> None:
    problem = problem_for(solver, (64, 64, 56, 56), 64, padding=1)
    whole = solver.solution(problem, H200)
    limit = whole.total_workspace // 3
    cut = solver.solution(problem, H200, workspace_limit=limit)
    assert limit // 2 < cut.total_workspace <= limit
    assert cut.total_workspace == solver.workspace_size(problem, H200, limit)
    assert len(cut.steps) > len(whole.steps)


@each(ORDINARY)
def test_tensor_cores_only_where_there_are_some(solver: Tuned) -> None:
    problem = problem_for(solver, (64, 64, 56, 56), 64, padding=1)
    assert solver.default_config(problem, H200).integer("mma") > 0
    for other in (
        replace(H200, identity="", arch="sm_70"),
        replace(H200, identity="", backend="hip", arch="gfx90a", features=frozenset()),
    ):
        config = solver.default_config(problem, other)
        assert config["mma"] == 0
        assert config in solver.search_space(problem, other)


def test_tf32_is_one_product_where_it_is_allowed_and_precise_enough() -> None:
    """Larger tiles would exceed the bound: F(3, 6) did, by up to 1.35, on an H200."""
    for solver in ORDINARY:
        transform = solver.transform
        is_small = (transform.m, transform.r) in {(2, 3), (4, 3), (6, 3), (3, 4)}
        for allowed in (False, True):
            problem = problem_for(solver, (64, 64, 56, 56), 64, padding=1, allow_tf32=allowed)
            (program,) = {
                program
                for program in solver.solution(problem, H200).programs
                if any(word in program.source.path for word in ("mma", "held"))
            }
            is_one = allowed and is_small
            if is_one or program.source.path.endswith("gpu_product_mma.cl"):
                assert dict(program.defines)["PRODUCTS"] == (1 if is_one else 3)


def test_tf32_errors_grow_at_most_tenfold_unless_bits_may_be_lost() -> None:
    for solver in SOLVERS:
        grown = solver.transform.growth**solver.axes
        problem = problem_for(solver, (8, 64, 28, 28), 64, allow_tf32=True)
        assert multiplies_in_tf32(problem, solver.transform, solver.axes) or grown > 10
        normal = replace(problem, accuracy=AccuracyClass.NORMAL)
        assert multiplies_in_tf32(normal, solver.transform, solver.axes) is (grown <= 10)


def test_hopper_multiplies_rows_along_the_sum() -> None:
    """Its matrix units, in tiles that fit local memory, where split floats are precise enough."""
    for solver in ORDINARY:
        if solver.direction is Direction.BACKWARD_WEIGHTS:
            continue
        for options, enough in (({}, True), ({"groups": 4}, False), ({"allow_tf32": True}, False)):
            problem = problem_for(solver, (8, 64, 56, 56), 64, padding=1, **options)
            split = [
                config for config in solver.search_space(problem, H200) if Tile.of(config).splits
            ]
            assert bool(split) is (solver.channels_last and enough)
            for config in split:
                assert local_bytes_of(solver, problem, config) <= 227 * 1024
                packed = solver.solution(problem, H200, config).packed
                assert packed >= 2 * problem.elements("w") * 4 * 36 // 9


def local_bytes_of(solver: Tuned, problem: ConvProblem, config: Config) -> int:
    """What a work-group of Hopper's matrix units declares."""
    tile, programs = Tile.of(config), solver.solution(problem, H200, config).programs
    macros = next(dict(p.defines) for p in programs if "product" in p.source.path)
    stages, blocks = int(macros["STAGES"]), int(macros.get("BLOCKS", 0))
    rows, filters = 128 * tile.tile_m, 2 * 128 * tile.tile_n
    return stages * (rows if tile.holds else rows + filters) + blocks * filters


@pytest.mark.parametrize(("channels", "fits"), [(32, True), (128, True), (129, False)])
def test_filters_are_held_where_there_is_room(channels: int, *, fits: bool) -> None:
    for solver in ORDINARY:
        if solver.direction is Direction.FORWARD and solver.channels_last:
            problem = problem_for(solver, (8, channels, 14, 14), 64, padding=1)
            space = solver.search_space(problem, H200)
            held = [config for config in space if Tile.of(config).holds]
            assert bool(held) is fits
            for config in held:
                assert local_bytes_of(solver, problem, config) <= 227 * 1024


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"stride": 2}, Reason.STRIDE),
        ({"dilation": 17, "padding": 120}, Reason.DILATION),
        ({"dtype": DataType.BFLOAT16}, Reason.DTYPE),
        ({"accuracy": AccuracyClass.STRICT}, Reason.ACCURACY),
    ],
)
def test_what_is_refused(options: dict[str, Any], reason: Reason) -> None:
    for solver in SOLVERS:
        problem = problem_for(solver, (1, 16, 16, 16), 16, **options)
        answer = solver.takes(problem, H200)
        assert isinstance(answer, Rejected)
        assert answer.reason is reason


def test_float16_is_left_to_the_smallest_transform() -> None:
    for solver in solvers():
        assert isinstance(solver, (CpuSolver, GpuSolver))
        assert (DataType.FLOAT16 in solver.domain.dtypes) is (solver.transform is F2X3)


@each(SOLVERS)
def test_other_devices_and_sizes_are_refused(solver: GpuSolver) -> None:
    small = problem_for(solver, (1, 16, 16, 16), 16)
    huge = problem_for(solver, (1, 1, 2**16, 2**16), 1)
    for problem, target, reason in (
        (small, replace(H200, identity="", kind=DeviceKind.CPU), Reason.DEVICE_KIND),
        (small, replace(H200, identity="", max_work_group=64), Reason.WORK_GROUP),
        (small, replace(H200, local_memory=1024, features=frozenset()), Reason.LOCAL_MEMORY),
        (huge, H200, Reason.SIZE_LIMIT),
    ):
        answer = solver.takes(problem, target)
        assert isinstance(answer, Rejected)
        assert answer.reason is reason


def test_fused_kernels_come_after_the_others() -> None:
    for solver in FUSED:
        problem = problem_for(solver, (64, 64, 56, 56), 64, padding=1)
        others = [s for s in ORDINARY if s.takes(problem, H200)]
        best = min(s.wti(problem, H200) or 0.0 for s in others)
        assert 0.0 < (solver.wti(problem, H200) or 0.0) < best


@each([solver for solver in SOLVERS if solver not in FUSED])
def test_the_index_knows_waste(solver: GpuSolver) -> None:
    def index(size: int, channels: int) -> float:
        image = (64, channels, size, size)
        problem = problem_for(solver, image, channels, padding=taps_of(solver) // 2)
        found = solver.wti(problem, H200)
        assert found is not None
        return found

    assert index(60, 128) > 1.0
    assert index(60, 128) > index(61, 128)
    assert index(60, 128) > 4 * index(60, 4)


def test_kernels_compile_alone(as_gpu: Device) -> None:
    programs = (
        program
        for solver in SOLVERS
        for program in solver.solution(problem_for(solver, (1, 4, 8, 8), 4), as_gpu.target).programs
        if program.language is KernelLanguage.SHARED and "product" not in str(program.source)
    )
    for program in {replace(program, defines=()) for program in programs}:
        assert as_gpu.compile(program)
