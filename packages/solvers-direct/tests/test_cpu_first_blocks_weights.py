"""First layers in blocks of the filter: right on edges and drawn shapes, taken where it pays."""

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
from convfind_solvers_direct.cpu.first_phases_weights import CpuFirstBlocksWeights
from convfind_solvers_direct.cpu.first_weights import CpuFirstWeights
from convfind_solvers_direct.cpu.phases import Blocks
from convfind_solvers_direct.window import window

pytest_plugins = ["convfind.testing.fixtures"]

SOLVER = CpuFirstBlocksWeights()
#: Channels and filters that are taken, of both sizes of blocks, in one to five along an axis.
WINDOWS = (
    (1, (9, 9)),
    (3, (3, 3)),
    (4, (5, 7)),
    (2, (8, 8)),
    (1, (7, 7)),
    (3, (4, 11)),
    (1, (15, 14)),
)
TARGET = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU)


def problem_of(x: tuple[int, ...], w: tuple[int, ...], **options: object) -> ConvProblem:
    layout = Layout.of(2, channels_last=True)
    return ConvProblem.create(Direction.BACKWARD_WEIGHTS, x, w, layout=layout, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("arch", ["x86-64-avx2", "x86-64-avx512"])
def test_edges_of_tiles(arch: str, convfind_device: Device) -> None:
    device = of_instructions(on_cpu(convfind_device), arch)
    shapes = [
        problem_of((2, 1, 27, 19), (64, 1, 9, 9), padding=4),
        problem_of((1, 3, 21, 130), (40, 3, 5, 5), padding=2, alpha=0.5),
        problem_of((2, 4, 29, 14), (17, 4, 6, 8), padding=((3, 1), (5, 0)), beta=2.0),
        problem_of((1, 1, 40, 34), (5, 1, 15, 15), padding=6),
        problem_of((5, 4, 12, 4), (33, 4, 3, 3), padding=(1, 1)),
    ]
    report = assert_solver(SOLVER, device, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


def test_drawn_shapes(convfind_device: Device) -> None:
    device = on_cpu(convfind_device)

    @settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        def some(least: int, most: int) -> int:
            return data.draw(st.integers(least, most))

        channels, taps = data.draw(st.sampled_from(WINDOWS))
        filters = some(1, 40)
        shapes = [
            problem_of(
                (some(1, 2), channels, some(20, 60), some(20, 60)),
                (filters, channels, *taps),
                padding=tuple((some(0, 9), some(0, 9)) for _ in range(2)),
                beta=data.draw(st.sampled_from((0.0, 2.0))),
            )
            for _ in range(4)
        ]
        assert_solver(SOLVER, device, shapes=shapes, every_variant=False)

    check()


def test_blocks_are_those_with_the_fewest_products() -> None:
    for taps, block, pieces in (
        ((9, 9), 3, (3, 3)),
        ((5, 5), 3, (2, 2)),
        ((7, 7), 4, (2, 2)),
        ((3, 4), 4, (1, 1)),
        ((8, 6), 3, (3, 2)),
        ((8, 8), 4, (2, 2)),
    ):
        blocks = Blocks(window(problem_of((1, 1, 40, 40), (64, 1, *taps))))
        assert (blocks.taps, blocks.pieces) == ((block, block), pieces), taps


@pytest.mark.parametrize(
    ("channels", "taps", "filters"), [(1, 9, 64), (3, 3, 64), (3, 3, 16), (1, 7, 48), (3, 5, 32)]
)
def test_first_choice_where_it_is_faster(channels: int, taps: int, filters: int) -> None:
    first = problem_of((4, channels, 112, 112), (filters, channels, taps, taps), padding=taps // 2)
    assert SOLVER.takes(first, TARGET)
    index = SOLVER.wti(first, TARGET)
    direct = CpuFirstWeights(channels_last=True).wti(first, TARGET)
    assert index is not None
    assert direct is not None
    assert index > direct


def test_what_does_not_pay_is_refused() -> None:
    first = problem_of((4, 1, 224, 224), (64, 1, 9, 9), padding=4)
    for problem, reason in (
        (replace(first, accuracy=AccuracyClass.STRICT), Reason.ACCURACY),
        (problem_of((4, 1, 224, 224), (64, 1, 9, 9), stride=2), Reason.STRIDE),
        (problem_of((4, 1, 28, 28), (32, 1, 5, 5), padding=2), Reason.FILTER_SIZE),
        (problem_of((4, 2, 112, 112), (64, 2, 3, 3), padding=1), Reason.FILTER_SIZE),
        (problem_of((4, 3, 112, 112), (64, 3, 1, 1)), Reason.FILTER_SIZE),
        (problem_of((4, 3, 3, 41), (64, 3, 3, 3)), Reason.FILTER_SIZE),
        (problem_of((8, 2, 2, 40), (120, 2, 9, 9), padding=4), Reason.PADDING),
        (problem_of((1, 4, 64, 64), (1024, 4, 11, 11)), Reason.SIZE_LIMIT),
    ):
        answer = SOLVER.takes(problem, TARGET)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason, problem


def test_parts_fit_the_workspace() -> None:
    first = problem_of((16, 1, 224, 224), (64, 1, 9, 9), padding=4)
    least = SOLVER.workspace_size(first, TARGET, 0)
    for limit, parts in ((None, 4 * TARGET.compute_units), (least, 1)):
        solution = SOLVER.solution(first, TARGET, workspace_limit=limit)
        step = solution.steps[0]
        assert isinstance(step, Launch)
        assert step.global_size == (parts,)
        assert solution.workspace == SOLVER.workspace_size(first, TARGET, limit)
