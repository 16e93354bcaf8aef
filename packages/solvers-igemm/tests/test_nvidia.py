"""The implicit GEMM solvers for NVIDIA's matrix units; what runs kernels needs a Hopper GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from devices_for_tests import H200

from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import Launch, Memory
from convfind.testing import assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_igemm.gpu.geometry import without_patches
from convfind_solvers_igemm.nvidia.conv import MatrixConvSolver, reciprocal
from convfind_solvers_igemm.nvidia.form import (
    MOST_TAPS,
    can_share_rows,
    geometry_of,
    line_size,
)
from convfind_solvers_igemm.nvidia.tiles import LOCAL_MEMORY, NARROW, RATES, MatrixTile
from convfind_solvers_igemm.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [solver for solver in solvers() if isinstance(solver, MatrixConvSolver)]
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


@pytest.fixture(scope="session")
def hopper(convfind_device: Device) -> Device:
    """The device, if it is one of those that the kernels are for."""
    if convfind_device.target.arch != "sm_90":
        pytest.skip("needs an NVIDIA GPU of sm_90")
    return convfind_device


def problem_of(
    solver: MatrixConvSolver, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    layout = Layout.of(len(x) - 2, channels_last=solver.channels_last)
    return ConvProblem.create(solver.direction, x, w, layout=layout, **options)  # type: ignore[arg-type]


def shapes(solver: MatrixConvSolver) -> list[ConvProblem]:
    """Tiles that are not full, all ways to gather, all that moves a window."""
    return [
        problem_of(solver, (2, 32, 9, 11), (48, 32, 3, 3), padding=1),
        problem_of(solver, (3, 36, 6, 6), (40, 36, 1, 1)),
        problem_of(solver, (2, 3, 17, 19), (33, 3, 5, 5), stride=2, padding=2),
        problem_of(solver, (2, 3, 17, 19), (33, 3, 5, 4), padding=((1, 2), (3, 0))),
        problem_of(
            solver,
            (2, 64, 13, 12),
            (80, 32, 3, 3),
            groups=2,
            stride=(2, 1),
            dilation=(1, 2),
            padding=((1, 2), (0, 3)),
        ),
        problem_of(solver, (2, 64, 50), (70, 64, 4), stride=3),
        problem_of(solver, (1, 16, 5, 6, 7), (32, 16, 3, 3, 3), stride=2, padding=1),
        problem_of(solver, (1, 200, 4, 4), (264, 200, 3, 3), padding=1, alpha=0.5, beta=2.0),
        problem_of(solver, (1, 33, 8, 8), (37, 33, 3, 3), stride=3, padding=4),
        problem_of(solver, (1, 64, 5, 5), (64, 64, 1, 1), stride=2),
    ]


@each
def test_the_conformance_kit_finds_nothing(solver: MatrixConvSolver, hopper: Device) -> None:
    given = shapes(solver)
    cut_off = [replace(problem, allow_tf32=True) for problem in given[::2]]
    report = assert_solver(solver, hopper, shapes=given, every_variant=solver.is_dynamic)
    assert len(report.problems) >= len(given)
    assert_solver(solver, hopper, shapes=cut_off, every_variant=False)
    if solver.channels_last:
        kind = DataType.BFLOAT16
        narrow = [replace(problem, dtype=kind, y_dtype=kind) for problem in given]
        assert_solver(solver, hopper, shapes=narrow, every_variant=False)


class Pinned(MatrixConvSolver):
    """A solver with a config of the test's choice."""

    config = Config()

    @classmethod
    def of(cls, solver: MatrixConvSolver) -> Pinned:
        return cls(solver.direction, channels_last=solver.channels_last, fixed=solver.fixed)

    def default_config(self, problem: ConvProblem, target: object) -> Config:
        return self.config


def kinds_of(solver: MatrixConvSolver) -> dict[str, dict[str, object]]:
    """What changes a float32 problem to one of each kind of products."""
    narrow: dict[str, object] = {"dtype": DataType.BFLOAT16, "y_dtype": DataType.BFLOAT16}
    kinds: dict[str, dict[str, object]] = {"mixed": {}, "split": {}, "tf32": {"allow_tf32": True}}
    return {**kinds, "narrow": narrow} if solver.channels_last else kinds


@each
def test_every_tile_computes_the_same(solver: MatrixConvSolver, hopper: Device) -> None:
    pinned = Pinned.of(solver)
    for kind, changes in kinds_of(solver).items():
        window = 1 if kind == "split" else 3  # sums of 136 or 264 products
        plain = problem_of(solver, (2, 136, 9, 11), (264, 136, window, window))
        problem = replace(plain, **changes)  # type: ignore[arg-type]
        if kind in ("mixed", "split") and solver.solution(problem, hopper.target).packed:
            kind += "-packed"
        default = solver.default_config(problem, hopper.target)
        has_lines, one = "lines" in default, {"parts": 1} if "parts" in default else {}
        for tile in (tile for tile in RATES[kind] if tile.tile_n > NARROW):
            if tile.lines and not has_lines:
                continue
            pinned.config = Config(tile.config(has_lines=has_lines), **one)
            assert pinned.config in solver.search_space(problem, hopper.target)
            assert_solver(pinned, hopper, shapes=[problem], every_variant=False)


@each
def test_parts_of_a_sum_are_added_up(solver: MatrixConvSolver, hopper: Device) -> None:
    pinned = Pinned.of(solver)
    for kind, changes in kinds_of(solver).items():
        if kind == "split":
            continue
        for plain in (
            problem_of(solver, (2, 136, 9, 11), (72, 136, 3, 3), padding=1, alpha=0.5, beta=2.0),
            problem_of(solver, (1, 160, 9, 8), (64, 80, 5, 3), groups=2, padding=(2, 0)),
            problem_of(solver, (1, 264, 9, 9), (264, 264, 3, 3), stride=(2, 3), padding=1),
            problem_of(solver, (3, 520, 5, 5), (132, 520, 1, 1)),
        ):
            problem = replace(plain, **changes)  # type: ignore[arg-type]
            default = solver.default_config(problem, hopper.target)
            if "parts" not in default:
                continue
            space = solver.search_space(problem, hopper.target)
            counts = sorted({config.integer("parts") for config in space} - {1})
            for lines in (0, 1) if "lines" in default else (None,):
                found = {} if lines is None else {"lines": lines}
                for parts in {*counts[:2], *counts[-1:]}:
                    config = {**default, **found, "stages": 3, "parts": parts}
                    pinned.config = Config(config)
                    assert_solver(pinned, hopper, shapes=[problem], every_variant=False)


@each
def test_sums_are_split_where_tiles_leave_units_idle(solver: MatrixConvSolver) -> None:
    idle = problem_of(solver, (1, 512, 7, 7), (512, 512, 3, 3), padding=1)
    parts = solver.default_config(idle, H200).integer("parts")
    solution = solver.solution(idle, H200)
    assert parts > 1
    assert solution.workspace == parts * idle.nbytes("y")
    *_, multiply, add = solution.steps
    assert isinstance(multiply, Launch)
    assert isinstance(add, Launch)
    assert idle.direction.writes not in {
        getattr(argument, "memory", None) for argument in multiply.arguments
    }
    whole = solver.solution(idle, H200, workspace_limit=solution.packed)
    assert whole.workspace == 0
    assert len(whole.steps) == len(solution.steps) - 1
    limit = solution.packed + 3 * idle.nbytes("y") + 255
    assert solver.solution(idle, H200, workspace_limit=limit).workspace == 3 * idle.nbytes("y")
    assert solver.workspace_size(idle, H200, limit) <= limit
    busy = problem_of(solver, (64, 128, 28, 28), (128, 128, 3, 3), padding=1)
    assert "parts" not in solver.default_config(busy, H200)
    assert all("parts" not in config for config in solver.search_space(busy, H200))


@each
def test_configs_of_before_parts_leave_sums_whole(solver: MatrixConvSolver) -> None:
    problem = problem_of(solver, (1, 512, 7, 7), (512, 512, 3, 3), padding=1)
    old = MatrixTile(64, 64, 2).config(has_lines=False)
    assert solver.solution(problem, H200, old).workspace == 0


def refused(answer: Applicability) -> Reason | None:
    return answer.reason if isinstance(answer, Rejected) else None


@each
def test_other_devices_and_problems_are_refused(solver: MatrixConvSolver) -> None:
    fine = problem_of(solver, (1, 32, 8, 8), (32, 32, 3, 3))
    half = {"dtype": DataType.FLOAT16, "y_dtype": DataType.FLOAT16}
    turned = Direction.BACKWARD_WEIGHTS
    older = replace(H200, identity="", arch="sm_89")
    amd = replace(H200, identity="", arch="gfx90a", features=frozenset())
    for problem, target, reason in (
        (fine, H200, None),
        (fine, older, Reason.ARCHITECTURE),
        (fine, amd, Reason.FEATURE),
        (fine.with_direction(turned), H200, Reason.DIRECTION),
        (problem_of(solver, (1, 4, 8, 8), (4, 4, 1, 1)), H200, Reason.ACCURACY),
        (problem_of(solver, (1, 4, 8, 8), (4, 4, 1, 1), allow_tf32=True), H200, None),
        (
            problem_of(solver, (1, 4096, 9, 9), (4096, 4096, 3, 3), allow_tf32=True),
            H200,
            Reason.ACCURACY,
        ),
        # The data gradient of patches sums one tap of each filter.
        (
            problem_of(solver, (1, 3, 56, 56), (1024, 3, 7, 7), stride=7, allow_tf32=True),
            H200,
            None,
        ),
        (problem_of(solver, (1, 4, 9, 9), (4, 4, 8, 8)), H200, Reason.FILTER_SIZE),
        (
            problem_of(solver, (1, 9, 8, 8), (9, 9, 3, 3), **half),
            H200,
            None if solver.channels_last else Reason.DTYPE,
        ),
        (problem_of(solver, (1, 1, 2**16, 2**16), (32, 1, 6, 6)), H200, Reason.SIZE_LIMIT),
        (replace(fine, dtype=DataType.FLOAT64, y_dtype=DataType.FLOAT64), H200, Reason.DTYPE),
    ):
        assert refused(solver.takes(problem, target)) is reason, problem


@each
def test_defaults_are_legal(solver: MatrixConvSolver) -> None:
    for problem in shapes(solver):
        for changes in {}, {"allow_tf32": True}:
            changed = replace(problem, **changes)  # type: ignore[arg-type]
            config = solver.default_config(changed, H200)
            assert config in solver.search_space(changed, H200)


def test_measured_tiles_fit() -> None:
    for kind, tiles in RATES.items():
        for tile in tiles:
            packed = kind.endswith("-packed")
            splits = packed or kind in ("split", "mixed")
            assert tile.local_bytes(splits=splits, packed=packed) <= LOCAL_MEMORY
            assert MatrixTile.of(tile.config(has_lines=True)) == tile


@each
def test_weights_are_packed_only_where_they_need_it(solver: MatrixConvSolver) -> None:
    problem = problem_of(solver, (64, 64, 28, 28), (128, 64, 3, 3), padding=1)
    solution = solver.solution(problem, H200)
    as_they_are = solver.channels_last and solver.direction is Direction.FORWARD
    assert solution.packed == (0 if as_they_are else 2 * problem.nbytes("w"))  # split
    rounded = solver.solution(replace(problem, allow_tf32=True), H200)
    assert rounded.packed == problem.nbytes("w")
    assert solution.total_workspace == solver.workspace_size(problem, H200)
    (launch,) = solution.steps
    assert isinstance(launch, Launch)
    read = {str(getattr(argument, "memory", "")) for argument in launch.arguments}
    assert (Memory.W in read) is as_they_are


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_DATA])
def test_narrow_channels_are_filled_up_to_whole_pieces(direction: Direction) -> None:
    solver = MatrixConvSolver(direction, channels_last=True, fixed=False)
    half = {"dtype": DataType.FLOAT16, "y_dtype": DataType.FLOAT16}
    if direction is Direction.FORWARD:
        problem = problem_of(solver, (2, 6, 9, 9), (14, 3, 3, 3), groups=2, padding=1, **half)
    else:
        problem = problem_of(solver, (2, 15, 9, 9), (3, 15, 3, 3), padding=1, **half)
    solution = solver.solution(problem, H200)
    assert solution.workspace == 2 * 9 * 9 * problem.groups * 8 * 2
    assert solution.packed == (14 if direction is Direction.FORWARD else 15) * 9 * 8 * 2
    assert len(solution.steps) == 2
    assert solution.total_workspace == solver.workspace_size(problem, H200)


def test_a_stride_is_folded_into_few_channels() -> None:
    solver = MatrixConvSolver(Direction.FORWARD, channels_last=True, fixed=True)
    half = {"dtype": DataType.FLOAT16, "y_dtype": DataType.FLOAT16}
    problem = problem_of(solver, (2, 3, 15, 18), (8, 3, 7, 7), stride=2, padding=3, **half)
    solution = solver.solution(problem, H200)
    assert solution.workspace == 2 * 15 * 10 * 8 * 2  # pairs of positions, the first one outside
    assert solution.packed == 8 * 7 * 4 * 8 * 2  # and of taps


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_DATA])
def test_lines_share_nothing_but_places_outside(direction: Direction) -> None:
    solver = MatrixConvSolver(direction, channels_last=True, fixed=False)
    for window, dilation, padding in ((3, 1, 0), (3, 1, 1), (3, 2, 1), (4, 1, 5), (5, 2, 3)):
        problem = problem_of(
            solver, (1, 32, 40), (32, 32, window), dilation=dilation, padding=padding
        )
        shape = geometry_of(problem)
        assert can_share_rows(problem, shape)
        more, pitch = (window - 1) * dilation, line_size(shape)
        first = padding - more if shape.is_gradient else -padding
        count, size = shape.out[2], shape.size[2]
        assert count <= pitch <= count + more
        for place in range(pitch, count + more):  # rows of the next line
            assert not 0 <= first + place < size
            assert not 0 <= first + place - pitch < size


def test_phases_of_few_channels_are_columns() -> None:
    solver = MatrixConvSolver(Direction.BACKWARD_DATA, channels_last=True, fixed=False)
    problem = problem_of(solver, (64, 3, 64, 64), (64, 3, 7, 7), stride=2, padding=3)
    config = solver.default_config(problem, H200)
    assert config.integer("tile_n") == NARROW  # 3 channels in 4 phases
    solution = solver.solution(problem, H200)
    assert solution.packed == 2 * 12 * 16 * 64 * 4  # taps of any phase, split
    (launch,) = solution.steps
    assert isinstance(launch, Launch)
    rows = 64 * 32 * (line_size(geometry_of(problem)) if config.integer("lines") else 32)
    tile = MatrixTile.of(config)
    assert launch.global_size == (-(-rows // tile.tile_m) * tile.threads,)


@pytest.mark.parametrize(
    ("direction", "x", "w", "options", "mixes"),
    [
        # Phases of few channels are columns: with taps of their own only where they share them all.
        (Direction.BACKWARD_DATA, (2, 4, 16, 16), (64, 4, 3, 3), {"stride": 2, "padding": 1}, True),
        (Direction.BACKWARD_DATA, (2, 4, 16, 16), (64, 4, 2, 2), {"stride": 2}, False),
        (Direction.BACKWARD_DATA, (2, 64, 16, 16), (64, 64, 3, 3), {"stride": 2}, False),
        # A stride that is folded into narrow channels, of which the last place is no tap.
        (Direction.FORWARD, (2, 3, 16, 16), (64, 3, 7, 7), {"stride": 2, "dtype": "float16"}, True),
        (
            Direction.FORWARD,
            (2, 3, 16, 16),
            (64, 3, 4, 4),
            {"stride": 2, "dtype": "float16"},
            False,
        ),
        (Direction.FORWARD, (2, 3, 16, 16), (64, 3, 7, 7), {"stride": 2}, False),
        (Direction.FORWARD, (2, 64, 16, 16), (64, 64, 3, 3), {"padding": 1}, False),
    ],
)
def test_taps_of_zero_that_meet_data_mix_values(
    direction: Direction,
    x: tuple[int, ...],
    w: tuple[int, ...],
    options: dict[str, Any],
    mixes: bool,
) -> None:
    solver = next(
        s for s in SOLVERS if s.direction is direction and s.channels_last and s.is_dynamic
    )
    problem = problem_of(solver, x, w, **options)
    assert solver.takes(problem, H200)
    assert solver.mixes_values(problem) is mixes


def test_taps_of_a_phase_count_not_those_of_the_window() -> None:
    solver = MatrixConvSolver(Direction.BACKWARD_DATA, channels_last=True, fixed=True)
    for channels, taps, stride, padding, dilation, phase_taps in (
        (3, 11, 4, 2, 1, 9),
        (32, 9, 2, 4, 1, 25),
        (32, 10, 3, 0, 2, 16),
        (32, 15, 2, 0, 1, 64),
        (32, 9, 2, 0, 2, 81),  # a phase has all taps or none
    ):
        x, w = (1, channels, 40, 40), (32, channels, taps, taps)
        problem = problem_of(solver, x, w, stride=stride, padding=padding, dilation=dilation)
        assert geometry_of(problem).phase_taps == phase_taps
        reason = Reason.FILTER_SIZE if phase_taps > MOST_TAPS else None
        assert refused(solver.takes(problem, H200)) is reason
    forward = MatrixConvSolver(Direction.FORWARD, channels_last=True, fixed=True)
    problem = problem_of(forward, (1, 32, 40, 40), (32, 32, 9, 9), stride=2)
    assert refused(forward.takes(problem, H200)) is Reason.FILTER_SIZE


def test_windows_side_by_side_are_channels_of_fixed_forms() -> None:
    solver = MatrixConvSolver(Direction.FORWARD, channels_last=True, fixed=True)
    patches = problem_of(solver, (2, 3, 32, 48), (64, 3, 16, 16), stride=16)
    seen = without_patches(patches)
    assert (seen.x_shape, seen.w_shape) == ((2, 48, 32, 3), (64, 48, 16, 1))
    assert seen.y_shape == patches.y_shape
    assert without_patches(seen) == seen
    assert solver.takes(patches, H200)
    dynamic = MatrixConvSolver(Direction.FORWARD, channels_last=True, fixed=False)
    assert refused(dynamic.takes(patches, H200)) is Reason.FILTER_SIZE
    for changes in {"padding": (0, 16), "padding_end": (0, 16)}, {"dilation": (1, 2)}:
        other = replace(patches, **changes)  # type: ignore[arg-type]
        assert without_patches(other) == other


def test_division_by_a_product() -> None:
    for number in (1, 2, 3, 7, 56 * 56, 2**16 + 1, 2**30, 2**31 - 1):
        factor, shift = reciprocal(number) % 2**32, reciprocal(number) >> 32
        most = (2**31 - 1) // number
        for multiple in (0, 1, most // 2, most):
            for value in (multiple * number - 1, multiple * number, multiple * number + number - 1):
                if 0 <= value < 2**31:
                    assert value * factor >> shift == value // number


@each
def test_matrix_units_pass_plain_arithmetic(solver: MatrixConvSolver) -> None:
    problem = problem_of(solver, (64, 128, 28, 28), (128, 128, 3, 3), padding=1)
    plain = solver.wti(problem, H200)
    rounded = solver.wti(replace(problem, allow_tf32=True), H200)
    assert plain is not None
    assert rounded is not None
    assert 0.9 < plain < rounded < 5


@pytest.mark.parametrize(
    ("kind", "splits"), [("mixed-packed", True), ("tf32", False), ("narrow", False)]
)
def test_register_limits_leave_the_work_groups_that_rates_were_measured_with(
    kind: str, splits: bool
) -> None:
    shared = {t: r for t, r in RATES[kind].items() if t.lines and t.tile_n > NARROW}
    assert shared
    for tile, rate in shared.items():
        assert tile.registers(splits=splits) * tile.threads * rate.resident <= 64 * 1024


@pytest.mark.parametrize(("lines", "options"), [(1, ("-cl-nv-maxrregcount=128",)), (0, ())])
def test_registers_are_limited_where_taps_share_rows(lines: int, options: tuple[str, ...]) -> None:
    solver = MatrixConvSolver(Direction.BACKWARD_DATA, channels_last=True, fixed=False)
    problem = problem_of(solver, (16, 64, 224, 224), (64, 64, 3, 3), padding=1)
    config = MatrixTile(128, 64, 3, lines).config(has_lines=True)
    assert [p.options for p in solver.solution(problem, H200, config).programs] == [options]
