"""Every registered solver on the stand-in, and every tile with matrix instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

pytest.importorskip("hip", reason="hip-python is not installed")
pytest.importorskip("convfind_backend_hip", reason="the HIP backend is not installed")

from standin import Standin

import convfind
from convfind.device.target import DeviceKind, Target
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.solver import Solver, TunableSolver
from convfind.solver.config import Config
from convfind.testing import assert_solver, edge_cases
from convfind.testing.shapes import variants
from convfind.types import AccuracyClass, DataType, Direction, Layout
from convfind_backend_hip.backend import HipBackend
from convfind_backend_hip.device import HipDevice

WAVE64, WAVE32 = "gfx90a:sramecc+:xnack-", "gfx1030"
TARGET = Target(*("hip", "a gpu", DeviceKind.GPU, "AMD", "ROCm", WAVE64, 104, "1"))
SOLVERS = list(default_registry().solvers_for(TARGET)[0])
EVERY = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.solver_id)
#: What items of a wave do together, or is told of their number.
OF_WAVES = re.compile(r"__shfl|__ballot|__any\b|__all\b|(?<!define )CF_WAVE_SIZE")
#: Problems of a solver, fewer for waves of 32. Solvers' own packages run more.
MOST = {WAVE64: 4, WAVE32: 2}
#: Which tiles a type is multiplied with: those of two bytes share them. The bfloat16 instructions
#: of gfx908 are its own.
MATRIX_DEVICES = [
    (WAVE64, DataType.FLOAT32, slice(None)),
    (WAVE64, DataType.FLOAT16, slice(0, None, 2)),
    (WAVE64, DataType.BFLOAT16, slice(1, None, 2)),
    ("gfx908", DataType.BFLOAT16, slice(0, None, 3)),
]


@cache
def cases() -> tuple[ConvProblem, ...]:
    """Return all kinds of edge cases and of what some solvers want: large filters, channels and
    rows in fours, one channel a group behind a stride, few results of many channels.
    """
    large = (
        ConvProblem.create(way, (2, 3, 12, 13), (3, 1, 9, 9), groups=3, padding=4)
        for way in Direction
    )
    fours = ConvProblem.forward((2, 8, 5, 7), (12, 8, 3, 3), padding=1, layout=Layout.NHWC)
    rows = (
        ConvProblem.create(way, (2, 3, 7, 8), (3, 1, 3, 5), groups=3, padding=(1, 2))
        for way in Direction
    )
    strided = ConvProblem.create(
        Direction.BACKWARD_DATA, (2, 3, 9, 14), (3, 1, 3, 3), groups=3, padding=1, stride=2
    )
    few = ConvProblem.create(Direction.BACKWARD_DATA, (2, 3, 9, 12), (20, 3, 5, 5), padding=2)
    return tuple(
        variant.plain()
        for case in (*edge_cases(), *large, fours, *rows, strided, few)
        for stated in (case, replace(case, accuracy=AccuracyClass.RELAXED))
        for variant in variants(stated)
    )


def taken(solver: Solver, target: Target) -> list[ConvProblem]:
    """Return problems of all kinds that a solver takes."""
    found = [problem for problem in cases() if solver.takes(problem, target)]
    most = MOST[target.arch] if solver.is_dynamic else 2
    return found[:: max(1, -(-len(found) // most))]


def is_the_same(solver: Solver, problem: ConvProblem, target: Target, other: Target) -> bool:
    """Say whether a solver does the same on two devices, whatever the size of their waves."""
    if not solver.takes(problem, other):
        return False
    solution = solver.solution(problem, target)
    return solution == solver.solution(problem, other) and not any(
        OF_WAVES.search(program.source.text) for program in solution.programs
    )


def products(dtype: DataType, layout: Layout) -> list[ConvProblem]:
    """Return problems that fill large tiles, in all directions."""
    shapes = (((2, 32, 9, 11), (48, 32, 3, 3)), ((3, 36, 6, 6), (40, 36, 1, 1)))
    return [
        ConvProblem.create(way, x, w, padding=w[2] // 2, dtype=dtype, layout=layout)
        for x, w in shapes
        for way in Direction
    ]


@pytest.fixture
def device(
    standin: Standin, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[HipDevice]:
    """A device of the architecture that a test asks for."""
    assert standin.root
    monkeypatch.setenv("STANDIN_DEVICES", request.param)
    opened = HipBackend().open()
    yield opened
    opened.close()
    # What the check compiled lives as long as the device, which pytest keeps with the test.
    request.node.funcargs.clear()


@pytest.fixture(scope="session")
def wave64(built: Standin) -> Target:
    """The device of waves of 64 items."""
    assert built.root
    opened = HipBackend().open()
    opened.close()
    assert opened.target.arch == WAVE64
    return opened.target


@EVERY
@pytest.mark.parametrize("device", [WAVE64], indirect=True, ids=["wave64"])
def test_solvers(solver: Solver, device: HipDevice) -> None:
    assert_solver(solver, device, shapes=taken(solver, device.target), every_variant=False)


@EVERY
@pytest.mark.parametrize("device", [WAVE32], indirect=True, ids=["wave32"])
def test_solvers_that_waves_of_32_make_a_difference_to(
    solver: Solver, device: HipDevice, wave64: Target
) -> None:
    problems = [
        problem
        for problem in taken(solver, device.target)
        if not is_the_same(solver, problem, device.target, wave64)
    ]
    if not problems:
        pytest.skip("does the same on waves of 64")
    assert_solver(solver, device, shapes=problems, every_variant=False)


@pytest.mark.parametrize(("device", "dtype", "share"), MATRIX_DEVICES, indirect=["device"])
def test_tiles_of_matrix_instructions(
    dtype: DataType, share: slice, device: HipDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tile that defaults are chosen from, the solvers in turns."""
    tiles = list(pytest.importorskip("convfind_solvers_igemm.gpu.tiles").MATRIX_RATES)[share]
    names = [f"igemm-gpu-{layout}-{d.short}" for d in Direction for layout in ("nchw", "nhwc")]
    solvers = [s for s in SOLVERS if s.solver_id in names]
    ran = 0
    instructions = set()
    for number, tile in enumerate(tiles):
        solver = solvers[number % len(solvers)]
        assert isinstance(solver, TunableSolver)
        config = Config(tile.values, parts=1)
        layout = Layout.of(2, channels_last="-nhwc-" in solver.solver_id)
        problems = [
            problem
            for problem in products(dtype, layout)
            if solver.takes(problem, device.target)
            and config in solver.search_space(problem, device.target)
        ]
        if not problems:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(solver, "default_config", lambda *_, config=config: config)
            report = assert_solver(solver, device, shapes=problems, every_variant=False)
        ran += len(report.problems)
        (program, *_) = solver.solution(problems[0], device.target, config).programs
        assert dict(program.defines)["MFMA"] == tile.mfma
        instructions.add(tile.mfma)
    assert ran > len(tiles)
    assert len(instructions) > 1


@pytest.mark.parametrize(
    "fields",
    [
        {"causal": True},
        {"dtype": "float16", "mask": (1, 1, 1, 70), "mask_dtype": "bool", "zeros": True},
    ],
    ids=str,
)
def test_attention_is_right(standin: Standin, fields: dict[str, Any]) -> None:
    operators = pytest.importorskip("convfind_operators")
    from convfind_operators.testing import assert_operator

    assert standin.root
    heads = {"q": (1, 4, 9, 24), "k": (1, 2, 70, 24), "v": (1, 2, 70, 40)}
    problem = operators.AttentionProblem(**heads, **fields)
    with convfind.open("hip:0") as handle:
        assert_operator(problem, handle.session.device, not_finite=not problem.causal)
