"""Implicit GEMM whose tiles Hopper's copy engine fetches; on CPUs its units are emulated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices_for_tests import H200
from emulated_units import COMPILER, EmulatedUnits
from numpy.typing import NDArray

from convfind.checking.reference import reference_convolution
from convfind.kit.register_limit import ALL_REGISTERS, OPTION
from convfind.problem import Activation, ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import Launch, Memory, Recipe, ScalarArg, TensorMapArg
from convfind.testing import assert_solver
from convfind.testing.device_checks import DeviceChecks
from convfind.testing.guarded_run import GuardedRunner
from convfind.testing.report import SolverReport
from convfind.types import DataType, Direction, Layout
from convfind_solvers_igemm.nvidia.form import MatrixProduct, can_share_rows, geometry_of
from convfind_solvers_igemm.nvidia.tma import TmaConvSolver
from convfind_solvers_igemm.nvidia.tma_tiles import RATES, TmaTile, kind_of

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [TmaConvSolver(direction) for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)]
CUDA = replace(H200, backend="cuda")
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


@pytest.fixture(scope="session")
def hopper(convfind_device: Device) -> Device:
    """The device, if it is one of those that the kernels are for."""
    if convfind_device.target.arch != "sm_90" or convfind_device.target.backend != "cuda":
        pytest.skip("needs an NVIDIA GPU of sm_90 through CUDA")
    return convfind_device


def problem_of(
    solver: TmaConvSolver, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    layout = Layout.of(len(x) - 2, channels_last=True)
    options = {"allow_tf32": True, **options}
    return ConvProblem.create(solver.direction, x, w, layout=layout, **options)  # type: ignore[arg-type]


def shapes(solver: TmaConvSolver) -> list[ConvProblem]:
    """Tiles that are not full, taps that share rows and that do not, all that moves a window."""
    steps: dict[str, object] = {"stride": (2, 1)} if solver.direction is Direction.FORWARD else {}
    return [
        problem_of(solver, (2, 32, 9, 11), (48, 32, 3, 3), padding=1),
        problem_of(solver, (3, 40, 6, 6), (40, 40, 1, 1)),
        problem_of(solver, (2, 8, 17, 19), (40, 8, 5, 5), padding=2),
        problem_of(solver, (2, 8, 17, 19), (24, 8, 5, 4), padding=((1, 2), (3, 0))),
        problem_of(
            solver,
            (2, 128, 13, 12),
            (128, 64, 3, 3),
            groups=2,
            dilation=(1, 2),
            padding=((1, 2), (0, 3)),
            **steps,
        ),
        problem_of(solver, (2, 64, 50), (72, 64, 4), dilation=3),
        problem_of(solver, (1, 200, 4, 4), (264, 200, 3, 3), padding=1, alpha=0.5, beta=2.0),
        problem_of(solver, (1, 72, 5, 5), (136, 72, 3, 3), padding=4),
        problem_of(solver, (9, 64, 30, 30), (264, 64, 1, 1)),
    ]


@each
def test_the_conformance_kit_finds_nothing(solver: TmaConvSolver, hopper: Device) -> None:
    given = shapes(solver)
    report = assert_solver(solver, hopper, shapes=given, every_variant=True)
    assert len(report.problems) >= len(given)
    for kind in DataType.BFLOAT16, DataType.FLOAT16:
        narrow = [
            replace(one, dtype=kind, y_dtype=kind, allow_tf32=False) for one in shapes(solver)
        ]
        assert_solver(solver, hopper, shapes=narrow, every_variant=False)


class Pinned(TmaConvSolver):
    """A solver with a config of the test's choice."""

    config = Config()

    def default_config(self, problem: ConvProblem, target: object) -> Config:
        return self.config


def kinds_of(problem: ConvProblem) -> dict[str, ConvProblem]:
    """Return the problem in each kind that tiles were measured for."""
    narrow = replace(problem, dtype=DataType.BFLOAT16, y_dtype=DataType.BFLOAT16, allow_tf32=False)
    plain = {"tf32": problem, "narrow": narrow}
    added = {f"{kind}-added": replace(one, add=True, beta=1.0) for kind, one in plain.items()}
    gelu = Activation("gelu-erf")
    computed = {f"{kind}-computed": replace(one, activation=gelu) for kind, one in plain.items()}
    return {**plain, **added, **computed}


@each
def test_every_tile_computes_the_same(solver: TmaConvSolver, hopper: Device) -> None:
    pinned = Pinned(solver.direction)
    # More tiles than work-groups where these compute one after the other.
    large = problem_of(solver, (20, 184, 29, 31), (184, 184, 3, 3), padding=1, bias=True)
    small = problem_of(solver, (1, 184, 5, 9), (264, 184, 3, 3), padding=(0, 2))
    for plain in (large, small):
        for kind, problem in kinds_of(plain).items():
            space = solver.search_space(problem, hopper.target)
            one = {"parts": 1} if "parts" in solver.default_config(problem, hopper.target) else {}
            for tile in RATES[kind]:
                pinned.config = Config(tile.values, **one)
                assert pinned.config in space
                assert_solver(pinned, hopper, shapes=[problem], every_variant=False)


@each
def test_parts_of_a_sum_are_added_up(solver: TmaConvSolver, hopper: Device) -> None:
    pinned = Pinned(solver.direction)
    plain = problem_of(solver, (2, 136, 9, 11), (72, 136, 3, 3), padding=1, alpha=0.5, beta=2.0)
    for problem in kinds_of(plain).values():
        default = solver.default_config(problem, hopper.target)
        for parts in (2, 4):
            pinned.config = Config({**default, "parts": parts})
            assert pinned.config in solver.search_space(problem, hopper.target)
            assert_solver(pinned, hopper, shapes=[problem], every_variant=False)


@each
def test_small_tiles_lose_no_more_than_rounding(solver: TmaConvSolver, hopper: Device) -> None:
    problem = problem_of(solver, (1, 32, 4, 4), (32, 32, 1, 1))
    pinned = Pinned(solver.direction)
    pinned.config = Config(TmaTile(64, 64, 2).values).without("line")
    assert_solver(pinned, hopper, shapes=[problem], every_variant=False)
    assert pinned.error_bound(problem) == 1.0  # rounding both, and nothing beside that


def emulated(test: Any) -> Any:
    """Mark a test that takes seconds and compiles for CPUs."""
    needs = pytest.mark.skipif(COMPILER is None, reason="needs a compiler of C++")
    return pytest.mark.slow(needs(test))


#: A GPU of so few units that work-groups compute several tiles, one after the other.
FEW = replace(CUDA, identity="", compute_units=2)


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return EmulatedUnits(FEW, tmp_path_factory.mktemp("kernels"))


@emulated
@each
def test_the_conformance_kit_finds_nothing_on_a_cpu(solver: TmaConvSolver, units: Any) -> None:
    # The last one has many tiles, as others here have on few units.
    given = shapes(solver)[solver.direction is Direction.FORWARD : 8 : 2]
    report = assert_solver(solver, units, shapes=given, every_variant=False)
    assert len(report.problems) == 4


def failures(solver: TmaConvSolver, problem: ConvProblem, units: Any) -> list[Any]:
    """Run a solver; return what is wrong about its results."""
    report = SolverReport(solver.solver_id, FEW.identity)
    checks = DeviceChecks(report, solver, FEW, GuardedRunner(units), 0)
    checks.check(problem, solver.solution(problem, FEW))
    return report.failures


@emulated
@pytest.mark.parametrize("kind", RATES)
def test_each_tile_computes_the_same_on_a_cpu(kind: str, units: Any) -> None:
    others = {tile for other in RATES if other.startswith(f"{kind}-") for tile in RATES[other]}
    for at, tile in enumerate(tile for tile in RATES[kind] if tile not in others):
        pinned = Pinned(SOLVERS[at % 2].direction)
        plain = problem_of(pinned, (1, 184, 5, 9), (264, 184, 3, 3), padding=(0, 2), bias=True)
        problem = kinds_of(plain)[kind]
        one = {"parts": 1} if "parts" in SOLVERS[at % 2].default_config(problem, FEW) else {}
        pinned.config = Config(tile.values, **one)
        assert pinned.config in SOLVERS[at % 2].search_space(problem, FEW)
        assert failures(pinned, problem, units) == []


@emulated
@each
@pytest.mark.parametrize(("parts", "overlap"), [(3, 0), (50, 1), (3, 2), (50, 2)])
def test_parts_are_added_up_on_a_cpu(
    solver: TmaConvSolver, parts: int, overlap: int, units: Any
) -> None:
    pinned = Pinned(solver.direction)
    # With more parts than steps some have none.
    problem = problem_of(solver, (2, 136, 5, 7), (72, 136, 3, 3), padding=1, alpha=0.5, beta=2.0)
    tile = TmaTile(64, 64, 4, overlap=overlap)
    pinned.config = Config(tile.values, parts=parts)
    assert failures(pinned, problem, units) == []


def refused(answer: Applicability) -> Reason | None:
    return answer.reason if isinstance(answer, Rejected) else None


def test_other_devices_and_problems_are_refused() -> None:
    forward, gradient = SOLVERS
    older = replace(CUDA, identity="", arch="sm_89")
    fine = problem_of(forward, (1, 32, 8, 8), (32, 32, 3, 3))

    def changed(x: tuple[int, ...], w: tuple[int, ...], **options: object) -> ConvProblem:
        return problem_of(forward, x, w, **options)

    strided = problem_of(gradient, (1, 32, 8, 8), (32, 32, 3, 3), stride=2)
    for solver, problem, target, reason in (
        (forward, fine, CUDA, None),
        (forward, fine, older, Reason.ARCHITECTURE),
        (gradient, fine, CUDA, Reason.DIRECTION),
        (forward, replace(fine, allow_tf32=False), CUDA, Reason.ACCURACY),
        (forward, changed((1, 6, 8, 8), (32, 6, 3, 3)), CUDA, Reason.CHANNELS),
        (forward, changed((1, 32, 8, 8), (30, 32, 3, 3)), CUDA, Reason.CHANNELS),
        (forward, changed((1, 48, 8, 8), (48, 24, 3, 3), groups=2), CUDA, Reason.GROUPS),
        (forward, changed((1, 32, 8, 8, 8), (32, 32, 3, 3, 3)), CUDA, Reason.SPATIAL_RANK),
        (forward, changed((1, 32, 99, 99), (32, 32, 3, 3), stride=9), CUDA, Reason.SIZE_LIMIT),
        (forward, changed((1, 32, 8, 8), (32, 32, 3, 3), padding=200), CUDA, Reason.SIZE_LIMIT),
        (forward, changed((1, 32, 8, 8), (32, 32, 3, 3), padding=121), CUDA, None),
        (forward, changed((1, 32, 8, 8), (32, 32, 3, 3), padding=122), CUDA, Reason.SIZE_LIMIT),
        (forward, changed((1, 32, 8, 800), (32, 32, 1, 300)), CUDA, Reason.SIZE_LIMIT),
        (forward, changed((1, 4096, 9, 9), (4096, 4096, 3, 3)), CUDA, Reason.ACCURACY),
        (gradient, strided, CUDA, Reason.STRIDE),
    ):
        assert refused(solver.takes(problem, target)) is reason, problem


@each
def test_defaults_are_legal(solver: TmaConvSolver) -> None:
    for plain in shapes(solver):
        for problem in kinds_of(plain).values():
            config = solver.default_config(problem, CUDA)
            assert config in solver.search_space(problem, CUDA)


def test_rows_that_are_not_whole_take_longer_and_have_tall_tiles() -> None:
    solver = SOLVERS[0]

    def seconds(channels: int, filters: int) -> tuple[float, int]:
        problem = problem_of(
            solver, (32, channels, 56, 56), (filters, channels, 1, 1), dtype="float16"
        )
        index = solver.wti(problem, CUDA)
        assert index is not None
        config = solver.default_config(problem, CUDA)
        return problem.flops / index, config.integer("tile_m")

    (ragged, tall), (sector, _), (whole, _) = (seconds(count, 64) for count in (24, 32, 64))
    assert tall >= 192
    assert ragged > sector > 0
    assert ragged > whole  # for less than half of the work


@each
def test_a_unit_has_memory_and_registers_for_every_config(solver: TmaConvSolver) -> None:
    """Where sums are split, results of 16 bits are added up as floats, which take more memory."""
    plain = problem_of(solver, (1, 512, 9, 9), (72, 512, 3, 3))
    for problem in kinds_of(plain).values():
        configs = list(solver.search_space(problem, CUDA))
        assert any(config["parts"] != 1 for config in configs)
        for config in configs:
            (program,) = solver.solution(problem, CUDA, config).programs
            (limit,) = (one for one in program.options if one.startswith(OPTION))
            assert 64 <= int(limit.removeprefix(OPTION)) <= ALL_REGISTERS, config


def test_kinds_are_those_that_tiles_were_measured_for() -> None:
    kinds = kinds_of(problem_of(SOLVERS[0], (1, 32, 8, 8), (32, 32, 3, 3)))
    assert kinds.keys() == RATES.keys()
    assert {kind: kind_of(problem) for kind, problem in kinds.items()} == {
        one: one for one in kinds
    }
    relu = replace(kinds["narrow"], activation=Activation("relu"))
    assert kind_of(relu) == "narrow"
    assert kind_of(replace(relu, activation=Activation("silu"))) == "narrow-computed"


def test_items_that_take_turns_have_registers_of_those_that_fetch() -> None:
    for tile in {tile for tiles in RATES.values() for tile in tiles if tile.overlap == 2}:
        places, registers = tile.room(2)
        assert places == 1
        assert tile.threads == 2 * 2 * tile.tile_m + 128
        # Whole waves of four are given 40 registers or more: the others then have 232.
        assert tile.threads * registers >= 128 * 40 + 256 * 232


def test_measured_tiles_fit() -> None:
    for kind, tiles in RATES.items():
        for tile, rate in tiles.items():
            places, registers = tile.room(4 if kind.startswith("tf32") else 2)
            assert places == rate.resident
            assert registers * tile.threads * places <= 64 * 1024


@each
def test_weights_are_packed_only_where_they_are_turned(solver: TmaConvSolver) -> None:
    problem = problem_of(solver, (64, 64, 28, 28), (128, 64, 3, 3), padding=1)
    solution = solver.solution(problem, CUDA)
    is_turned = solver.direction is Direction.BACKWARD_DATA
    assert solution.packed == (problem.nbytes("w") if is_turned else 0)
    (launch,) = solution.steps
    assert isinstance(launch, Launch)
    assert launch.arguments[1].memory == (  # type: ignore[union-attr]
        Memory.PACKED if is_turned else Memory.W
    )


def copied(
    source: NDArray[np.float64], of: TensorMapArg, at: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return the rows that the engine copies: of windows from the position ``at`` on, all images.

    ``source`` has images, rows, columns and channels; ``at`` has the taps' columns and rows.
    """
    windows = of.windows
    assert windows is not None
    channels, width, height, images = of.sizes
    assert source.shape == (images, height, width, channels)
    (first_w, first_h), (count_w, count_h), (step_w, step_h) = (
        windows.first,
        windows.counts,
        windows.steps,
    )
    rows = np.zeros((images, count_h, count_w, channels))
    for i in range(count_h):
        for j in range(count_w):
            h, w = first_h + i * step_h + at[1], first_w + j * step_w + at[0]
            if 0 <= h < height and 0 <= w < width:
                rows[:, i, j] = source[:, h, w]
    return rows.reshape(-1, channels)


def computed(
    problem: ConvProblem, recipe: Recipe, tile: TmaTile, operands: dict[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return what the kernel computes by its arguments: tap by tap, rows times columns."""
    shape = geometry_of(problem)
    launch = recipe.steps[0]
    assert isinstance(launch, Launch)
    source_map, filter_map = launch.arguments[:2]
    assert isinstance(source_map, TensorMapArg)
    assert isinstance(filter_map, TensorMapArg)
    numbers = [int(arg.value) for arg in launch.arguments if isinstance(arg, ScalarArg)]
    taps_h, taps_w, step_h, step_w, off_h, off_w = numbers[-13:-7]
    origin = numbers[-7:-5]
    assert (origin[1], origin[0]) == source_map.windows.first  # type: ignore[union-attr]
    count_w, result_w = numbers[-2:]
    w = operands["w"].reshape(shape.groups, -1, w_channels := problem.w_shape[1], shape.taps)
    if shape.is_gradient:
        w = w.swapaxes(1, 2)
    assert filter_map.sizes == (shape.channels, shape.taps, shape.groups * shape.filters)
    assert w_channels in (shape.channels, shape.filters)
    height, width = shape.size[1:]
    source = np.moveaxis(operands[shape.source].reshape(shape.images, -1, height, width), 1, -1)
    rows = MatrixProduct(shape, tile.line > 1).rows
    result = np.zeros((rows, shape.groups, shape.filters))
    for tap in range(shape.taps):
        i, j = divmod(tap, taps_w)
        along, down = off_w + j * step_w, off_h + i * step_h
        assert 0 <= along < 256
        assert 0 <= down < 256
        if tile.line > 1:  # the same rows, some further on
            read = copied(source, source_map, (0, down))
            read = np.concatenate([read, np.zeros((8, read.shape[1]))])[along : along + rows]
        else:
            read = copied(source, source_map, (along, down))
        per_group = read.reshape(rows, shape.groups, shape.channels)
        result += np.einsum("rgc,gkc->rgk", per_group, w[:, :, :, tap])
    assert taps_h * taps_w == shape.taps
    result = result.reshape(-1, count_w, shape.groups * shape.filters)[:, :result_w]
    result = result.reshape(shape.images, *shape.out[1:], -1)
    return np.moveaxis(result, -1, 1).reshape(problem.shape(shape.result))


@each
def test_maps_and_arguments_tell_of_the_convolution(solver: TmaConvSolver) -> None:
    rng = np.random.default_rng(0)
    sharing = 0
    for problem in shapes(solver):
        first = Layout.of(len(problem.x_shape) - 2, channels_last=False)
        plain = replace(
            problem,
            alpha=1.0,
            beta=0.0,
            allow_tf32=False,
            dtype=DataType.FLOAT64,
            y_dtype=DataType.FLOAT64,
            x_layout=first,
            w_layout=first,
            y_layout=first,
        )
        operands = {
            name: rng.standard_normal(problem.shape(name)) for name in problem.direction.reads
        }
        expected = reference_convolution(plain, *operands.values())
        shape = geometry_of(problem)
        for line in (1, shape.window[2]):
            if line > 1 and not can_share_rows(problem, shape):
                continue
            sharing += line > 1
            tile = TmaTile(64, 64, 2, line=line)
            recipe = solver.recipe(problem, CUDA, Config(tile.values), None)
            found = computed(problem, recipe, tile, operands)
            np.testing.assert_allclose(found, expected, atol=1e-10)
    assert sharing == (2 if solver.direction is Direction.FORWARD else 3)
