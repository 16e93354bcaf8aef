"""Planes in stages for one channel a group on NVIDIA's GPUs: geometry, and what comes out.

Elsewhere OpenCL C stands for the PTX: copies are done when they are asked for.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from devices_for_tests import H200

from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch, ScalarArg
from convfind.testing import MOCK_TARGET, assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu.bands import BandsConv
from convfind_solvers_direct.gpu.lines import LinesConv
from convfind_solvers_direct.nvidia.stages import StagesConv
from convfind_solvers_direct.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [solver for solver in solvers() if isinstance(solver, StagesConv)]
FORWARD, BACKWARD_DATA = SOLVERS
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)
LAST = "wave_is_last(readers + buffer, lane, WAVES)"
#: Waves wait for each other where the PTX lets them: what one has copied, all see.
EMULATED = """
#define CF_INLINED CF_INLINE __attribute__((always_inline))
#define CF_WAVE_BARRIER()
#undef CF_SHARED
#define CF_SHARED(pointer) (pointer)
#define barrier_start(barrier, items)
#define barriers_started()
#define barrier_expect(barrier, bytes)
#define barrier_wait(barrier, parity) CF_BARRIER()
#define copy_run(to, from, bytes, barrier) copy_floats(to, from, (bytes) / 4)
#define runs_stored()
#define CF_FENCE_MATRICES()
#define store_four(to, four) CF_STORE4(to, four)
#define wave_first(value) (value)
#define wave_pause(cycles)
CF_INLINED void copy_floats(CF_LOCAL_PTR float *to, CF_GLOBAL const float *from, const int floats) {
  for (int k = 0; k < floats; ++k) to[k] = from[k];
}
CF_INLINED void store_run(CF_GLOBAL float *to, CF_LOCAL_PTR const float *from,
                          const CF_UINT bytes) {
  for (CF_UINT k = 0; k < bytes / 4; ++k) to[k] = from[k];
}
CF_INLINED int wave_is_last(CF_LOCAL_PTR CF_UINT *count, const int lane, const CF_UINT waves) {
  CF_BARRIER();
  return CF_LOCAL_ID(0) < 32;
}
"""


@dataclass(frozen=True, slots=True)
class EmulatedSource(KernelSource):
    """A kernel file without PTX."""

    @property
    def text(self) -> str:
        shared = KernelSource("convfind", "kernel_include/convfind_kernel.h").text
        header = KernelSource("convfind_solvers_direct", "kernels/nvidia_stages.h").text
        text = KernelSource(self.package, self.path).text
        for ptx, instead in (
            (header.replace(shared, ""), EMULATED),
            # PoCL gets a barrier on a condition wrong, even one that all items agree on.
            (f"next < stages && {LAST}", f"{LAST} && next < stages"),
        ):
            assert text.count(ptx) == 1
            text = text.replace(ptx, instead)
        return text


def emulating(device: Device) -> Device:
    """Return an H200 as it is, and another device as one of one unit and without PTX."""
    if device.target.arch == "sm_90":
        return device
    features = device.target.features | {"nv-ptx"}
    changes: dict[str, Any] = {
        "kind": DeviceKind.GPU,
        "arch": "sm_90",
        "features": features,
        "compute_units": 1,
    }
    copied = copy.copy(device)
    copied.target = replace(device.target, identity="", **changes)

    def compile_emulated(program: Program) -> bytes:
        source = EmulatedSource(program.source.package, program.source.path)
        return device.compile(replace(program, source=source, options=("-cl-opt-disable",)))

    copied.compile = compile_emulated  # type: ignore[method-assign]
    return copied


def problem_of(
    solver: StagesConv | LinesConv | BandsConv,
    x: tuple[int, ...],
    taps: tuple[int, int],
    **options: object,
) -> ConvProblem:
    padding = tuple(count // 2 for count in taps)
    options = {"groups": x[1], "padding": padding, **options}
    return ConvProblem.create(solver.direction, x, (x[1], 1, *taps), **options)  # type: ignore[arg-type]


def shapes_of(solver: StagesConv) -> list[ConvProblem]:
    """Stages that are not full, bands that reach beyond the plane, all kinds of padding."""
    return [
        problem_of(solver, (5, 2, 56, 56), (7, 7)),
        problem_of(solver, (3, 3, 29, 28), (5, 5), alpha=0.5, beta=2.0),
        problem_of(solver, (3, 2, 30, 32), (9, 9)),
        problem_of(solver, (2, 3, 17, 64), (6, 5), padding=((5, 0), (0, 4)), beta=1.0),
        problem_of(solver, (9, 2, 28, 28), (5, 8), padding=((1, 3), (4, 3))),
    ]


class Chained(StagesConv):
    """Work-groups that have several stages, two of them in local memory."""

    changes: tuple[tuple[str, int], ...] = (
        ("buffers", 2),
        ("teams", 2),
        ("leave", 0),
        ("stagger", 800),
    )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        config = super().default_config(problem, target)
        config = config.replace(**{"planes": 1, **dict(self.changes)})
        assert config in self.search_space(problem, target)
        return config


class Leaving(Chained):
    """The same, whose results leave by bulk copies."""

    changes = (*Chained.changes, ("leave", 1), ("stagger", 0))


class Single(Chained):
    """One buffer, eight rows an item where these do not spill."""

    changes = (*Chained.changes, ("buffers", 1))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        config = super().default_config(problem, target)
        eight = config.replace(rows=8)
        return eight if eight in self.search_space(problem, target) else config


@pytest.mark.parametrize(
    "solver",
    [
        FORWARD,
        Chained(BACKWARD_DATA.direction),
        Leaving(FORWARD.direction),
        Single(BACKWARD_DATA.direction),
    ],
)
def test_the_conformance_kit_finds_nothing(solver: StagesConv, convfind_device: Device) -> None:
    shapes = shapes_of(solver)
    report = assert_solver(solver, emulating(convfind_device), shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)
    assert not report.rejected


@each
def test_defaults_are_legal(solver: StagesConv) -> None:
    for problem in shapes_of(solver):
        for target in (
            H200,
            replace(H200, identity="", max_work_group=256),
            replace(H200, identity="", compute_units=1),
        ):
            assert solver.takes(problem, target)
            space = list(solver.search_space(problem, target))
            assert solver.default_config(problem, target) in space
            assert 1 < len(space) <= 400


@each
@pytest.mark.parametrize(
    ("x", "taps", "config", "registers"),
    [
        ((32, 96, 56, 56), 7, {"planes": 2, "buffers": 1, "stagger": 1600}, 72),
        ((32, 96, 56, 56), 5, {"planes": 2, "buffers": 2, "teams": 4, "leave": 1}, 72),
        ((16, 96, 56, 56), 9, {"planes": 2, "buffers": 1}, 96),
        ((32, 192, 28, 28), 7, {"planes": 8, "buffers": 1, "stagger": 1600}, 72),
        ((16, 96, 64, 64), 7, {"planes": 1, "buffers": 1, "stagger": 1600}, 72),
        ((32, 240, 28, 28), 5, {"planes": 4, "buffers": 2, "teams": 4}, 128),
        ((1, 96, 56, 56), 7, {"planes": 1, "buffers": 1}, 72),
    ],
)
def test_usual_configs(
    solver: StagesConv, x: tuple[int, ...], taps: int, config: dict[str, int], registers: int
) -> None:
    problem = problem_of(solver, x, (taps, taps))
    usual = Config(rows=7, teams=0, leave=0, stagger=0)
    assert solver.default_config(problem, H200) == usual.replace(**config)
    (program,) = solver.solution(problem, H200).programs
    assert f"-cl-nv-maxrregcount={registers}" in program.options


@each
def test_work_groups_cover_all_stages_and_fit_a_unit(solver: StagesConv) -> None:
    for problem in shapes_of(solver):
        images, channels, height, width = problem.x_shape
        for config in solver.search_space(problem, H200).sample(40, seed=1):
            (launch,) = solver.solution(problem, H200, config).steps
            assert isinstance(launch, Launch)
            numbers = [int(arg.value) for arg in launch.arguments if isinstance(arg, ScalarArg)]
            _, _, _, _, blocks, teams, units, staggered, stagger = numbers
            planes, rows = config.integer("planes"), config.integer("rows")
            assert (blocks - 1) * planes < images <= blocks * planes
            (items,) = launch.local_size
            assert items >= planes * width // 4 * math.ceil(height / rows)
            assert launch.global_size == (teams * items,)
            wanted = config.integer("teams") * units
            assert teams == (min(wanted, blocks * channels) if wanted else blocks * channels)
            (option,) = (o for o in launch.kernel.program.options if "maxrregcount" in o)
            resident = staggered // units
            assert resident * items * int(option.partition("=")[2]) <= 65536
            assert resident > 0
            assert stagger == config["stagger"]


@each
def test_neighbouring_items_read_different_banks(solver: StagesConv) -> None:
    problem = problem_of(solver, (32, 96, 56, 56), (7, 7))
    (program,) = solver.solution(problem, H200).programs
    together = int(str(dict(program.defines)["TOGETHER"]))
    fours = {(n % together + n // together * 7 * 56 // 4) % 8 for n in range(8)}
    assert together == 2
    assert len(fours) == 8


@each
def test_what_it_beats(solver: StagesConv) -> None:
    """By the throughput index, as was measured on an H200."""
    lines, bands = LinesConv(solver.direction), BandsConv(solver.direction)
    for other, x, taps, is_better in (
        (lines, (32, 96, 56, 56), 5, True),
        (lines, (32, 96, 56, 56), 7, True),
        (lines, (16, 96, 56, 56), 9, True),
        (bands, (32, 192, 28, 28), 7, True),
        (bands, (32, 192, 32, 32), 5, True),
        (bands, (32, 192, 32, 32), 7, True),
        (lines, (1, 96, 56, 56), 7, False),
    ):
        problem = problem_of(solver, x, (taps, taps))
        mine, others = solver.wti(problem, H200), other.wti(problem, H200)
        assert mine is not None
        assert others is not None
        assert (mine > others) is is_better, (x, taps, mine, others)


@each
def test_other_devices_and_problems_are_refused(solver: StagesConv) -> None:
    fine = problem_of(solver, (2, 4, 32, 32), (7, 7))
    last = {f"{name}_layout": Layout.NHWC for name in "xwy"}
    half = replace(fine, dtype=DataType.FLOAT16, y_dtype=DataType.FLOAT16)
    amd = replace(H200, identity="", arch="gfx90a", features=frozenset())
    pairs = ConvProblem.create(solver.direction, (2, 8, 32, 32), (8, 2, 7, 7), groups=4, padding=3)
    cases: tuple[tuple[ConvProblem, Target, Reason | None], ...] = (
        (fine, H200, None),
        (fine, replace(H200, identity="", arch="sm_89"), Reason.ARCHITECTURE),
        (fine, amd, Reason.FEATURE),
        (fine, MOCK_TARGET, Reason.DEVICE_KIND),
        (fine.with_direction(Direction.BACKWARD_WEIGHTS), H200, Reason.DIRECTION),
        (half, H200, Reason.DTYPE),
        (replace(fine, **last), H200, Reason.LAYOUT),  # type: ignore[arg-type]
        (pairs, H200, Reason.CHANNELS),
        (problem_of(solver, (2, 4, 32, 32), (7, 7), stride=2), H200, Reason.STRIDE),
        (problem_of(solver, (2, 4, 32, 32), (5, 5), padding=4, dilation=2), H200, Reason.DILATION),
        (problem_of(solver, (2, 4, 32, 32), (7, 7), padding=2), H200, Reason.PADDING),
        (problem_of(solver, (2, 4, 32, 32), (3, 3)), H200, Reason.FILTER_SIZE),
        (problem_of(solver, (2, 4, 32, 32), (11, 7)), H200, Reason.FILTER_SIZE),
        (
            problem_of(solver, (2, 4, 32, 32), (7, 7), padding=((3, 3), (5, 1))),
            H200,
            Reason.FILTER_SIZE,
        ),
        (problem_of(solver, (2, 4, 32, 30), (7, 7)), H200, Reason.SIZE_LIMIT),
        (problem_of(solver, (2, 4, 24, 28), (7, 7)), H200, Reason.SIZE_LIMIT),
        (problem_of(solver, (2, 4, 112, 112), (7, 7)), H200, Reason.SIZE_LIMIT),
    )
    for problem, target, reason in cases:
        answer = solver.takes(problem, target)
        assert (answer.reason if isinstance(answer, Rejected) else None) is reason, problem
