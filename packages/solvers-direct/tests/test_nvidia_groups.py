"""Groups of four and eight channels on NVIDIA's matrix units, which CPUs emulate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import H200, repeats_another
from emulated_fragments import with_fragments

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver import asking
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import Launch, ScalarArg
from convfind.testing import MOCK_TARGET, assert_solver
from convfind.types import AccuracyClass, DataType, Direction, Layout
from convfind_solvers_direct.nvidia.groups import GroupsConv
from convfind_solvers_direct.solver_list import solvers
from convfind_solvers_direct.window import window

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [solver for solver in solvers() if isinstance(solver, GroupsConv)]
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


#: Addresses of local memory, and the memory through which lanes exchange what they have.
EMULATED = (
    (r"CF_UINT (?=(ring|to_piece|into|take)\b)", "ulong "),
    (r"CF_UINT (?=(own|put)\[)", "ulong "),
    (r"(?= CF_LOCAL unsigned char memory)", " CF_LOCAL ulong cf_exchange[3 * ITEMS];\n "),
)


@pytest.fixture(scope="session")
def nvidia(convfind_device: Device) -> Device:
    """The device, or a CPU that emulates one."""
    if repeats_another(convfind_device):
        pytest.skip("emulated by the CPU's other runtime")
    return with_fragments(convfind_device, EMULATED, compute_units=4)


def problem_of(
    solver: GroupsConv, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    options = {"layout": {3: "NWC", 4: "NHWC"}[len(x)], **options}
    return ConvProblem.create(solver.direction, x, w, **options)  # type: ignore[arg-type]


def shapes_of(solver: GroupsConv) -> list[ConvProblem]:
    """Edges of strips, bands, octets and groups; filters and padding of all kinds."""
    found = []
    for c in (4, 8):
        for x, w, options in (
            ((2, 8 * c, 28, 28), (8 * c, c, 3, 3), {"groups": 8, "padding": 1}),
            ((3, 3 * c, 7, 19), (3 * c, c, 3, 3), {"groups": 3, "padding": (0, 2), "beta": 2.0}),
            ((2, 12 * c, 11, 33), (12 * c, c, 3, 3), {"groups": 12, "alpha": 0.5}),
            ((1, 5 * c, 15, 70), (5 * c, c, 3, 3), {"groups": 5, "padding": 4}),
            ((2, 4 * c, 5, 9), (4 * c, c, 2, 4), {"groups": 4, "padding": ((2, 1), (0, 3))}),
            ((2, 4 * c, 3, 40), (4 * c, c, 1, 9), {"groups": 4, "padding": (0, 4)}),
            ((2, 4 * c, 13, 6), (4 * c, c, 9, 1), {"groups": 4}),
            ((2, 2 * c, 50), (2 * c, c, 8), {"groups": 2, "padding": 3}),
        ):
            found.append(problem_of(solver, x, w, **options))
    return found


class Narrow(GroupsConv):
    """One octet, one block of columns, few rows in local memory, several bands."""

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        config = super().default_config(problem, target)
        return config.replace(octets=1, blocks=1, copies=1, stages=4, bands=2)


@pytest.mark.parametrize("solver", [*SOLVERS, Narrow(Direction.FORWARD)])
def test_the_conformance_kit_finds_nothing(
    solver: GroupsConv, nvidia: Device, convfind_device: Device
) -> None:
    # Emulated products take a thousand times as long.
    shapes = shapes_of(solver) if nvidia is convfind_device else shapes_of(solver)[::3]
    rounded = [replace(problem, allow_tf32=True) for problem in shapes[::3]]
    report = assert_solver(solver, nvidia, shapes=[*shapes, *rounded], every_variant=False)
    assert not report.rejected


@each
def test_defaults_are_legal(solver: GroupsConv) -> None:
    for problem in shapes_of(solver):
        assert solver.takes(problem, H200)
        for most in (32, 64, 128, 1024):
            target = replace(H200, identity="", max_work_group=most)
            assert solver.default_config(problem, target) in solver.search_space(problem, target)


@each
def test_work_groups_cover_the_result(solver: GroupsConv) -> None:
    for problem in shapes_of(solver):
        shape = window(problem)
        for config in solver.search_space(problem, H200).sample(40, seed=1):
            (launch,) = solver.solution(problem, H200, config).steps
            assert isinstance(launch, Launch)
            numbers = [arg.value for arg in launch.arguments if isinstance(arg, ScalarArg)]
            strips, strip, bands, band = map(int, numbers[-4:])
            assert (strips - 1) * strip < shape.out[1] <= strips * strip
            assert (bands - 1) * band < shape.out[0] <= bands * band
            # Items of a wave each have a column; of a row they copy what the filter reaches.
            columns = 16 * config.integer("blocks")
            assert strip <= columns
            assert strip + shape.window[1] - 1 <= config.integer("copies") * columns
            channels = 8 * config.integer("octets")
            blocks = -(-shape.groups * shape.channels // channels)
            items = launch.local_size[0]
            assert items == columns // 16 * config.integer("octets") * 32
            assert launch.global_size == (shape.images * blocks * strips * bands * items,)


@each
@pytest.mark.parametrize(
    ("channels", "size", "items", "stages"), [(8, 28, 256, 4), (4, 56, 128, 8)]
)
def test_usual_layers_fill_the_device_once(
    solver: GroupsConv, channels: int, size: int, items: int, stages: int
) -> None:
    total = 32 * channels
    x, w = (32, total, size, size), (total, channels, 3, 3)
    problem = problem_of(solver, x, w, groups=32, padding=1)
    (launch,) = solver.solution(problem, H200).steps
    assert isinstance(launch, Launch)
    assert launch.local_size == (items,)
    assert launch.global_size == (256 * 256,)  # of 132 units each has 512 items at most
    config = solver.default_config(problem, H200)
    assert config.integer("stages") == stages
    index = solver.wti(problem, H200)
    assert index is not None
    assert 0.1 < index < 2


@each
def test_other_devices_and_problems_are_refused(solver: GroupsConv) -> None:
    fine = problem_of(solver, (2, 16, 8, 8), (16, 4, 3, 3), groups=4, padding=1)
    first = {f"{name}_layout": Layout.NCHW for name in "xwy"}
    half = replace(fine, dtype=DataType.FLOAT16, y_dtype=DataType.FLOAT16)
    amd = replace(H200, identity="", arch="gfx90a", features=frozenset())
    cases: tuple[tuple[ConvProblem, Target, Reason | None], ...] = (
        (fine, H200, None),
        (fine, replace(H200, identity="", arch="sm_80"), None),
        (fine, replace(H200, identity="", arch="sm_75"), Reason.ARCHITECTURE),
        (fine, amd, Reason.FEATURE),
        (fine, MOCK_TARGET, Reason.DEVICE_KIND),
        (fine.with_direction(Direction.BACKWARD_WEIGHTS), H200, Reason.DIRECTION),
        (half, H200, Reason.DTYPE),
        (replace(fine, **first), H200, Reason.LAYOUT),  # type: ignore[arg-type]
        (problem_of(solver, (2, 8, 8, 8), (8, 2, 3, 3), groups=4), H200, Reason.CHANNELS),
        (problem_of(solver, (2, 16, 8, 8), (32, 4, 3, 3), groups=4), H200, Reason.CHANNELS),
        (
            problem_of(solver, (2, 16, 8, 8), (16, 4, 3, 3), groups=4, stride=2),
            H200,
            Reason.STRIDE,
        ),
        (
            problem_of(solver, (2, 16, 8, 8), (16, 4, 3, 3), groups=4, dilation=2),
            H200,
            Reason.DILATION,
        ),
        (problem_of(solver, (2, 16, 8, 8), (16, 4, 5, 5), groups=4), H200, Reason.FILTER_SIZE),
        (problem_of(solver, (2, 16, 8, 8), (16, 4, 1, 3), groups=4), H200, Reason.ACCURACY),
    )
    for problem, target, reason in cases:
        answer = solver.takes(problem, target)
        assert (answer.reason if isinstance(answer, Rejected) else None) is reason, problem


@pytest.mark.parametrize(
    ("options", "products", "bound"),
    [({"allow_tf32": True}, 1, 1.0), ({"accuracy": "strict"}, 3, 1.0), ({}, 2, 2.0)],
)
def test_accuracy_chooses_products(options: dict[str, object], products: int, bound: float) -> None:
    problem = problem_of(SOLVERS[0], (2, 16, 8, 8), (16, 4, 3, 3), groups=4, **options)
    assert SOLVERS[0].takes(problem, H200)
    assert SOLVERS[0].error_bound(problem) == bound
    (program,) = SOLVERS[0].solution(problem, H200).programs
    assert dict(program.defines)["PRODUCTS"] == products


def test_groups_of_four_meet_another_group_times_zero() -> None:
    for channels, mixes in ((4, True), (8, False)):
        problem = problem_of(SOLVERS[0], (2, 16, 8, 8), (16, channels, 3, 3), groups=16 // channels)
        assert SOLVERS[0].mixes_values(problem) is mixes
        strict = replace(problem, accuracy=AccuracyClass.STRICT)
        assert bool(asking.applicability(SOLVERS[0], strict, H200)) is not mixes


def test_rounded_problems_take_short_sums() -> None:
    problem = problem_of(SOLVERS[0], (2, 16, 8, 8), (16, 4, 1, 3), groups=4, allow_tf32=True)
    assert SOLVERS[0].takes(problem, H200)
