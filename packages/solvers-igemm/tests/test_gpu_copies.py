"""Copies past the registers in the implicit GEMM kernels: which, and whether they arrive.

On CPUs OpenCL C stands for the PTX.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib.resources import files

import devices_for_tests
import pytest

from convfind.checking.random_data import integer_data
from convfind.checking.reference import reference_convolution
from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device
from convfind.runtime.tensors import tensor_view
from convfind.solver.config import Config
from convfind.solver.kernel_source import KernelSource
from convfind.solver.recipe import Launch, Recipe, Step
from convfind.testing.guarded_run import POISON, GuardedRunner
from convfind.testing.tensors import filled_memory
from convfind.types import DataType, Direction, Layout
from convfind_solvers_igemm.gpu.conv import ConvSolver
from convfind_solvers_igemm.gpu.tiles import Tile

pytest_plugins = ["convfind.testing.fixtures"]

FORWARD, BACKWARD_DATA = Direction.FORWARD, Direction.BACKWARD_DATA
SQUARE, WIDE, NARROW, SHORT = (
    Tile(64, 64, 16, 8, 8),
    Tile(64, 128, 16, 8, 16),
    Tile(16, 128, 16, 4, 16),
    Tile(256, 16, 16, 32, 2),
)
H200 = devices_for_tests.H200
#: The same copies, each done when it is asked for.
EMULATED = """
#define CF_INLINED CF_INLINE __attribute__((always_inline))
#define CF_SHARED(pointer) ((ulong)(size_t)(pointer))
CF_INLINED void cf_copy_4(const ulong to, CF_GLOBAL const void *from, const CF_UINT size) {
  *(CF_LOCAL_PTR float *)(size_t)to = size ? *(CF_GLOBAL const float *)from : 0.0f;
}
CF_INLINED void cf_copy_16(const ulong to, CF_GLOBAL const void *from, const CF_UINT size) {
  for (int i = 0; i < 4; ++i) cf_copy_4(to + 4 * i, (CF_GLOBAL const float *)from + i, size);
}
#define CF_COPIES_COMMIT()
#define CF_COPIES_WAIT(count)
"""
INCLUDE = '#include "convfind_kernel.h"\n'


@dataclass(frozen=True, slots=True)
class EmulatedSource(KernelSource):
    """A kernel file without PTX, and with addresses of local memory as wide as a CPU's."""

    @property
    def text(self) -> str:
        header = files("convfind").joinpath("kernel_include/convfind_nvidia.h").read_text()
        _, _, ptx = header.partition(INCLUDE)
        original = KernelSource(self.package, self.path).text
        assert original.count(ptx) == 1
        text = original.replace(ptx, EMULATED)
        text, addresses = re.subn(r"CF_UINT (?=(to|windows_to|filter_to)\b)", "ulong ", text)
        assert addresses == 4
        return text


def problem_of(
    direction: Direction,
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    channels_last: bool = False,
    **options: object,
) -> ConvProblem:
    layout = Layout.of(len(x) - 2, channels_last=channels_last)
    return ConvProblem.create(direction, x, w, layout=layout, **options)  # type: ignore[arg-type]


def solution_of(
    problem: ConvProblem, target: Target, tile: Tile, *, fixed: bool, parts: int = 1
) -> Recipe:
    channels_last = problem.x_layout.channels_last
    solver = ConvSolver(problem.direction, channels_last=channels_last, fixed=fixed)
    config = Config(tile.values, parts=parts)
    assert config.replace(parts=1) in solver.search_space(problem, target)
    return solver.solution(problem, target, config)


def copies(solution: Recipe) -> bool:
    (program,) = solution.programs
    return dict(program.defines)["FETCH"] == 1


def limits(solution: Recipe) -> tuple[str, ...]:
    (program,) = solution.programs
    return tuple(option.partition("maxrregcount=")[2] for option in program.options)


def emulated(step: Step) -> Step:
    assert isinstance(step, Launch)
    program = step.kernel.program
    source = EmulatedSource(program.source.package, program.source.path)
    program = replace(program, source=source, options=())
    return replace(step, kernel=replace(step.kernel, program=program))


def assert_exact(device: Device, problem: ConvProblem, tile: Tile, fixed: bool, parts: int) -> None:
    """Run on whole numbers, on which sums are exact in any order."""
    is_nvidia = device.target.compute_capability >= 80
    arch = device.target.arch if is_nvidia else "sm_90"
    features = device.target.features | {"nv-ptx"}
    target = replace(device.target, identity="", arch=arch, features=features)
    solution = solution_of(problem, target, tile, fixed=fixed, parts=parts)
    assert copies(solution), problem
    if not is_nvidia:
        solution = replace(solution, steps=tuple(emulated(step) for step in solution.steps))
    first, second = integer_data(problem, 0)
    numbers = dict(zip(problem.direction.reads, (first, second), strict=True))
    memory = {name: filled_memory(problem, name, numbers.get(name), POISON) for name in "xwy"}
    outcome = GuardedRunner(device).run(problem, solution, memory)
    assert outcome.complaints == [], (problem, tile)
    result = tensor_view(problem, problem.direction.writes, outcome.result)
    assert (result == reference_convolution(problem, first, second, None)).all(), (problem, tile)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("direction", [FORWARD, BACKWARD_DATA])
@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        # Four positions at a time, aligned and not, of a part of a block of channels.
        ((2, 28, 8, 6), (46, 28, 1, 1), {}),
        ((2, 30, 5, 7), (28, 30, 1, 1), {}),
        # One by one: borders, a part of a block in either direction, steps, groups.
        ((2, 16, 9, 8), (32, 16, 3, 3), {"padding": 1}),
        ((2, 15, 9, 8), (13, 15, 3, 2), {"padding": ((1, 0), (2, 1))}),
        ((1, 28, 11, 10), (26, 14, 3, 3), {"stride": (2, 1), "dilation": (1, 2), "groups": 2}),
    ],
)
def test_copies_find_their_places(
    direction: Direction,
    x: tuple[int, ...],
    w: tuple[int, ...],
    options: dict[str, object],
    fixed: bool,
    convfind_device: Device,
) -> None:
    device = devices_for_tests.as_gpu(convfind_device, compute_units=8, local_memory=96 * 1024)
    problem = problem_of(direction, x, w, **options)  # type: ignore[arg-type]
    assert_exact(device, problem, SQUARE, fixed, 2 if "padding" in options else 1)


@pytest.mark.parametrize("channels", [16, 30])
def test_copies_of_all_phases_at_once(channels: int, convfind_device: Device) -> None:
    device = devices_for_tests.as_gpu(convfind_device, compute_units=8, local_memory=96 * 1024)
    problem = problem_of(BACKWARD_DATA, (1, 3, 13, 14), (channels, 3, 5, 5), stride=2, padding=2)
    assert_exact(device, problem, NARROW, fixed=False, parts=1)


@pytest.mark.parametrize(
    ("direction", "tile", "fixed", "expected"),
    [
        (FORWARD, WIDE, True, ("128",)),
        (FORWARD, WIDE, False, ("255",)),
        (BACKWARD_DATA, WIDE, True, ("128",)),
        (BACKWARD_DATA, NARROW, False, ("255",)),
        # Measured to be slower, or to spill registers.
        (BACKWARD_DATA, NARROW, True, None),
        (FORWARD, SHORT, False, None),
        (FORWARD, Tile(256, 128, 16, 16, 16), True, None),
    ],
)
def test_what_copies_and_how_many_registers_it_is_left(
    direction: Direction, tile: Tile, fixed: bool, expected: tuple[str, ...] | None
) -> None:
    problem = problem_of(direction, (64, 64, 56, 56), (64, 64, 3, 3), padding=1)
    solution = solution_of(problem, H200, tile, fixed=fixed)
    assert copies(solution) is (expected is not None)
    if expected is not None:
        assert limits(solution) == expected


@pytest.mark.parametrize("fixed", [True, False])
def test_what_cannot_or_need_not_copy(fixed: bool) -> None:
    def fetches(target: Target, w: tuple[int, ...] = (64, 64, 3, 3), **options: object) -> bool:
        x = (64, w[1], 56, 56)
        problem = problem_of(FORWARD, x, w, padding=1, **options)  # type: ignore[arg-type]
        return copies(solution_of(problem, target, SQUARE, fixed=fixed))

    assert fetches(H200)
    assert not fetches(replace(H200, identity="", arch="sm_75"))
    assert not fetches(replace(H200, identity="", features=frozenset()))
    assert not fetches(H200, dtype=DataType.FLOAT16)
    assert not fetches(H200, channels_last=True)


@pytest.mark.parametrize("fixed", [True, False])
def test_tables_read_through_registers(fixed: bool) -> None:
    problem = problem_of(FORWARD, (64, 3, 56, 56), (64, 3, 3, 3), padding=1)
    tile = Tile(64, 64, 8, 8, 8)
    assert not copies(solution_of(problem, H200, tile, fixed=fixed))


def test_four_channels_that_belong_apart_are_copied_one_by_one() -> None:
    problem = problem_of(FORWARD, (64, 64, 56, 56), (64, 64, 1, 1))
    for tile, filters in ((WIDE, 0), (SHORT, 1)):
        (program,) = solution_of(problem, H200, tile, fixed=True).programs
        assert dict(program.defines)["FILTER"] == filters
