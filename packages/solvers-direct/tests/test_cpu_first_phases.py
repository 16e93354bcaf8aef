"""First layers by phases: right on edges and drawn shapes, and nothing taken that does not pay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import of_instructions, on_cpu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.solver.recipe import Launch
from convfind.testing import MOCK_TARGET, assert_solver
from convfind.types import AccuracyClass, Direction, Layout
from convfind_solvers_direct.cpu.first_phases import CpuFirstPhases
from convfind_solvers_direct.cpu.first_phases_weights import CpuFirstPhasesWeights
from convfind_solvers_direct.cpu.phases_solver import PhasesSolver

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = (CpuFirstPhases(), CpuFirstPhasesWeights())
EACH = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.solver_id)
#: Channels, stride and filter of problems that are taken.
WINDOWS = (
    (3, (2, 2), (7, 8)),
    (4, (2, 3), (8, 10)),
    (3, (4, 5), (11, 15)),
    (1, (4, 4), (11, 12)),
    (2, (3, 2), (11, 8)),
    (4, (4, 4), (9, 12)),
)
TARGET = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU)


def problem_of(
    solver: PhasesSolver, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    layout = Layout.of(2, channels_last=True)
    return ConvProblem.create(solver.direction, x, w, layout=layout, **options)  # type: ignore[arg-type]


def launched(solver: PhasesSolver, problem: ConvProblem, limit: int | None = None) -> int:
    """Work-items of the first launch."""
    step = solver.solution(problem, TARGET, workspace_limit=limit).steps[0]
    assert isinstance(step, Launch)
    return step.global_size[0]


@pytest.mark.parametrize("arch", ["x86-64-avx2", "x86-64-avx512"])
@EACH
def test_edges_of_tiles(solver: PhasesSolver, arch: str, convfind_device: Device) -> None:
    device = of_instructions(on_cpu(convfind_device), arch)
    shapes = [
        problem_of(solver, (2, 3, 37, 41), (40, 3, 7, 7), padding=3, stride=2),
        problem_of(
            solver, (1, 3, 130, 7), (5, 3, 7, 7), padding=((1, 2), (0, 4)), stride=2, beta=2.0
        ),
        problem_of(solver, (1, 3, 67, 70), (64, 3, 11, 11), padding=2, stride=4),
        problem_of(solver, (3, 3, 12, 5), (17, 3, 11, 11), padding=9, stride=4, alpha=0.5),
    ]
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@EACH
def test_drawn_shapes(solver: PhasesSolver, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)

    @settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        def some(least: int, most: int) -> int:
            return data.draw(st.integers(least, most))

        channels, stride, window = data.draw(st.sampled_from(WINDOWS))
        filters = some(1, 40)
        shapes = [
            problem_of(
                solver,
                (some(1, 2), channels, some(16, 60), some(16, 60)),
                (filters, channels, *window),
                stride=stride,
                padding=tuple((some(0, 9), some(0, 9)) for _ in range(2)),
                beta=data.draw(st.sampled_from((0.0, 2.0))),
            )
            for _ in range(4)
        ]
        assert_solver(solver, device, shapes=shapes, every_variant=False)

    check()


@EACH
def test_what_does_not_pay_is_refused(solver: PhasesSolver) -> None:
    first = problem_of(solver, (4, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2)
    assert solver.takes(first, TARGET)
    index = solver.wti(first, TARGET)
    assert index is not None
    assert 0.5 < index < 1.6
    for problem, reason in (
        (replace(first, accuracy=AccuracyClass.STRICT), Reason.ACCURACY),
        (problem_of(solver, (4, 3, 224, 224), (64, 3, 7, 7)), Reason.STRIDE),
        (problem_of(solver, (4, 4, 224, 224), (64, 4, 11, 11), stride=5), Reason.STRIDE),
        (problem_of(solver, (4, 3, 224, 224), (64, 3, 4, 4), stride=4), Reason.FILTER_SIZE),
        (problem_of(solver, (4, 3, 224, 224), (64, 3, 7, 5), stride=2), Reason.FILTER_SIZE),
        (problem_of(solver, (4, 1, 224, 224), (64, 1, 5, 5), stride=2), Reason.FILTER_SIZE),
    ):
        answer = solver.takes(problem, TARGET)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


def test_sums_beyond_the_caches_are_refused() -> None:
    solver = CpuFirstPhasesWeights()
    many = problem_of(solver, (4, 3, 224, 224), (512, 3, 11, 11), stride=4)
    answer = solver.takes(many, TARGET)
    assert isinstance(answer, Rejected)
    assert answer.reason == Reason.SIZE_LIMIT
    assert CpuFirstPhases().takes(many.with_direction(Direction.FORWARD), TARGET)


def test_few_tiles_are_as_many_parts_as_cores() -> None:
    solver = CpuFirstPhasesWeights()
    first = problem_of(solver, (1, 3, 224, 224), (64, 3, 11, 11), stride=4)
    parts = {images: launched(solver, first.with_batch(images)) for images in (1, 16)}
    assert parts == {1: TARGET.compute_units, 16: 4 * TARGET.compute_units}
    least = solver.workspace_size(first, TARGET, 0)
    assert launched(solver, first, least) == 1
