"""The weight gradient on NVIDIA's matrix units; what runs kernels needs such a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from devices_for_tests import H200

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import assert_solver
from convfind.types import DataType
from convfind_solvers_igemm.nvidia.weights import MatrixWeightsSolver
from convfind_solvers_igemm.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [solver for solver in solvers() if isinstance(solver, MatrixWeightsSolver)]
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


@pytest.fixture(scope="session")
def nvidia(convfind_device: Device) -> Device:
    """The device, if it is one of those that the kernels are for."""
    if not convfind_device.target.arch.startswith("sm_"):
        pytest.skip("needs an NVIDIA GPU")
    return convfind_device


def problem_of(x: tuple[int, ...], w: tuple[int, ...], **options: Any) -> ConvProblem:
    layout = {3: "NWC", 4: "NHWC", 5: "NDHWC"}[len(x)]
    return ConvProblem.backward_weights(x, w, layout=layout, **options)


def shapes() -> list[ConvProblem]:
    """Tiles that are not full, groups, all that moves a window, sums in parts and in one."""
    return [
        problem_of((3, 32, 11, 13), (48, 32, 3, 3), padding=1),
        problem_of((8, 72, 6, 6), (40, 72, 1, 1)),
        problem_of(
            (6, 64, 13, 12),
            (80, 32, 3, 3),
            groups=2,
            stride=(2, 1),
            dilation=(1, 2),
            padding=((1, 2), (0, 3)),
        ),
        problem_of((20, 64, 50), (72, 64, 4), stride=3),
        problem_of((4, 16, 9, 10, 11), (32, 16, 3, 3, 3), stride=2, padding=1),
        problem_of((20, 136, 4, 4), (200, 136, 3, 3), padding=1, alpha=0.5, beta=2.0),
        problem_of((2, 8, 40, 40), (8, 8, 5, 5), padding=4, beta=1.0),
    ]


def few_channels() -> list[ConvProblem]:
    """Strides that are folded into the channels, and axes where they are not."""
    return [
        problem_of((4, 3, 16, 20), (64, 3, 7, 7), stride=2, padding=3),
        problem_of((4, 6, 19, 22), (8, 6, 3, 4), stride=(2, 1), padding=1, alpha=0.5, beta=2.0),
        problem_of((13, 3, 90), (16, 3, 9), stride=4, padding=3),
        problem_of((11, 3, 16, 24), (24, 3, 4, 4), stride=4),
        problem_of((4, 3, 23, 23), (8, 3, 2, 2), stride=3, padding=1),
        problem_of((4, 3, 23, 23), (8, 3, 3, 3), stride=2, dilation=2, padding=2),
        problem_of((2, 1, 5, 13, 14), (8, 1, 3, 3, 3), stride=(1, 2, 2), padding=1),
    ]


def in_type(problem: ConvProblem, dtype: DataType) -> ConvProblem:
    return replace(problem, dtype=dtype, y_dtype=dtype)


@each
def test_the_conformance_kit_finds_nothing(solver: MatrixWeightsSolver, nvidia: Device) -> None:
    given = shapes()
    rounded = [replace(problem, allow_tf32=True) for problem in given[::2]]
    narrow = [in_type(problem, DataType.FLOAT16) for problem in given]
    narrow += [in_type(problem, DataType.BFLOAT16) for problem in given[::3]]
    few = few_channels() if solver.is_dynamic else few_channels()[::3]
    few += [in_type(problem, DataType.FLOAT16) for problem in few]
    asked = [*given, *rounded, *narrow, *few]
    report = assert_solver(solver, nvidia, shapes=asked, every_variant=False)
    assert not report.rejected


@each
def test_defaults_are_legal_and_limits_are_kept(solver: MatrixWeightsSolver) -> None:
    for problem in shapes():
        assert solver.default_config(problem, H200) in solver.search_space(problem, H200)
        assert solver.workspace_size(problem, H200, 0) == 0
        one = 4 * problem.elements("w")
        assert solver.workspace_size(problem, H200, 3 * one) in (0, 2 * one, 3 * one)


@each
def test_other_devices_and_problems_are_refused(solver: MatrixWeightsSolver) -> None:
    fine = problem_of((8, 32, 8, 8), (32, 32, 3, 3))
    first = ConvProblem.backward_weights((8, 32, 8, 8), (32, 32, 3, 3))
    older = replace(H200, identity="", arch="sm_75")
    amd = replace(H200, identity="", arch="gfx90a", features=frozenset())
    cases: tuple[tuple[ConvProblem, Target, Reason | None], ...] = (
        (fine, H200, None),
        (fine, replace(H200, identity="", arch="sm_80"), None),
        (fine, older, Reason.ARCHITECTURE),
        (fine, amd, Reason.FEATURE),
        (first, H200, Reason.LAYOUT),
        (problem_of((1, 4, 8, 8), (4, 4, 1, 1)), H200, Reason.ACCURACY),
        (problem_of((8, 3, 8, 8), (4, 3, 1, 1)), H200, None),
        (problem_of((8, 6, 8, 8), (8, 3, 1, 1), groups=2), H200, Reason.CHANNELS),
        (problem_of((8, 4, 8, 8), (6, 4, 1, 1)), H200, Reason.CHANNELS),
        (in_type(problem_of((8, 8, 8, 8), (4, 8, 1, 1)), DataType.FLOAT16), H200, Reason.CHANNELS),
        (in_type(fine, DataType.FLOAT64), H200, Reason.DTYPE),
    )
    for problem, target, reason in cases:
        answer = solver.takes(problem, target)
        assert (answer.reason if isinstance(answer, Rejected) else None) is reason, problem


@each
def test_few_weights_are_summed_in_parts(solver: MatrixWeightsSolver) -> None:
    problem = problem_of((64, 64, 56, 56), (64, 64, 3, 3), padding=1)
    config = solver.default_config(problem, H200)
    assert config.integer("parts") > 1
    assert len(solver.solution(problem, H200).steps) == 2
    assert len(solver.solution(problem, H200, workspace_limit=0).steps) == 1
    index = solver.wti(problem, H200)
    assert index is not None
    assert 0.5 < index < 3


@each
def test_strides_are_folded_into_few_channels(solver: MatrixWeightsSolver) -> None:
    problem = problem_of((64, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3)
    solution = solver.solution(problem, H200)
    assert len(solution.steps) == 3
    # Positions of 2 x 2 pixels, of which a window is 4 x 4; x is copied, the rest are sums.
    folded, part = 64 * 113 * 113 * 12, 64 * 4 * 4 * 12
    config = solver.default_config(problem, H200)
    copied = -(-4 * folded // 256) * 256
    assert solution.workspace == copied + 4 * part * config.integer("parts")
    assert solver.workspace_size(problem, H200, 0) == copied + 4 * part
    patches = problem_of((64, 3, 224, 224), (96, 3, 4, 4), stride=4)
    assert len(solver.solution(patches, H200).steps) == (2 if solver.fixed else 3)
