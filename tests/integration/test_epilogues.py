"""Solvers that declare epilogues store with a bias, an added tensor and an activation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from convfind.device.target import Target
from convfind.plugins.registry import default_registry
from convfind.problem import Activation, ConvProblem
from convfind.problem.traits import EPILOGUE_TRAITS
from convfind.runtime.backend import Device
from convfind.solver import Solver, asking
from convfind.solver.kernel_source import KernelSource
from convfind.solver.recipe import BufferArg, Launch, f32
from convfind.testing import check_solver
from convfind.types import DataType, Direction

sys.path.append(str(Path(__file__).parents[1]))
from devices_for_tests import H200, PLAIN_GPU, as_gpu, as_written

#: Told apart from all other arguments.
ALPHA, BETA = 0.8125, 0.40625
#: Layers with edges of tiles on all sides; each in both layouts and several types.
LAYERS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 20, 13, 17), (37, 20, 3, 3), {"padding": 1}),
    ((2, 300, 9, 11), (37, 300, 1, 1), {}),
    ((2, 24, 9, 9), (28, 24, 1, 1), {"stride": 2}),
    ((3, 24, 12, 16), (24, 4, 3, 3), {"padding": 1, "groups": 6}),
    ((3, 36, 12, 16), (36, 1, 3, 3), {"padding": 1, "groups": 36}),
    ((3, 8, 14, 14), (8, 1, 5, 5), {"padding": 2, "groups": 8}),
    ((2, 3, 33, 36), (36, 3, 3, 3), {"padding": 1}),
    ((2, 3, 37, 40), (40, 3, 7, 7), {"padding": 3, "stride": 2}),
    ((2, 36, 12, 16), (3, 36, 3, 3), {"padding": 1}),
    ((2, 128, 16, 16), (128, 128, 1, 1), {}),
    ((1, 18, 40, 44), (18, 1, 31, 31), {"padding": 15, "groups": 18}),
    ((1, 32, 40, 44), (34, 32, 13, 13), {"padding": 6}),
    ((2, 18, 17, 19), (20, 18, 1, 7), {}),
    ((2, 18, 17, 19), (20, 18, 5, 5), {"padding": 2}),
    ((2, 18, 17, 19), (20, 18, 1, 5), {}),
    ((2, 18, 17, 19), (20, 18, 3, 1), {}),
    ((2, 18, 17, 19), (20, 18, 3, 3), {"padding": 1, "stride": 2}),
    ((2, 12, 17, 19), (20, 6, 4, 4), {"padding": 2, "groups": 2, "stride": 2}),
    # small, for tiles of GPUs that are computed whole
    ((2, 5, 7, 9), (6, 5, 3, 3), {"padding": 1}),
    ((1, 3, 6, 9), (4, 3, 5, 5), {"padding": 2}),
    ((1, 3, 14, 17), (3, 1, 9, 9), {"padding": 4, "groups": 3}),
    ((2, 3, 13, 16), (8, 3, 7, 7), {"padding": 3, "stride": 2}),
    ((2, 3, 13, 16), (36, 3, 3, 3), {"padding": 1}),
    # for GPUs
    ((2, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}),
    ((4, 256, 56, 56), (256, 256, 3, 3), {"padding": 1}),
    ((8, 64, 28, 28), (64, 4, 3, 3), {"padding": 1, "groups": 16}),
    ((2, 32, 112, 112), (32, 1, 7, 7), {"padding": 3, "groups": 32}),
)
TYPES = (("float32", "float32"), ("float16", "float16"), ("int8", "float32"))


def problems(direction: Direction) -> Iterator[ConvProblem]:
    """The layers, with all that there is."""
    for dtype, result in TYPES:
        if dtype == "int8" and direction is not Direction.FORWARD:
            continue
        for x, w, more in LAYERS:
            for layout in ("NCHW", "NHWC"):
                yield ConvProblem.create(
                    direction,
                    *(x, w),
                    **{"layout": layout, "dtype": dtype, "y_dtype": result, **more},
                    alpha=ALPHA,
                    beta=BETA,
                    accuracy="relaxed",
                    bias=True,
                    add=True,
                    activation=Activation("leaky", 0.125),
                )


PROBLEMS = {d: tuple(problems(d)) for d in (Direction.FORWARD, Direction.BACKWARD_DATA)}


def solvers() -> list[Solver]:
    return [
        solver
        for solver in default_registry().solvers
        if solver.domain.traits >= EPILOGUE_TRAITS and not PROBLEMS.keys().isdisjoint(asked(solver))
    ]


def asked(solver: Solver) -> tuple[Direction, ...]:
    return tuple(direction for direction in solver.domain.directions if direction in PROBLEMS)


EVERY = pytest.mark.parametrize("solver", solvers(), ids=lambda solver: solver.solver_id)
GPU: dict[str, Any] = {
    "compute_units": 8,
    "local_memory": 48 * 1024,
    "features": frozenset({"dot4"}),
}


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = default_registry().backends["opencl"].open("cpu")
    yield opened
    opened.close()


@EVERY
def test_programs_and_launches_get_the_same_of_it(solver: Solver, device: Device) -> None:
    features = frozenset({"nv-ptx", "dot4"})
    places = device.target, PLAIN_GPU, replace(H200, identity="", features=features)
    for direction in asked(solver):
        for target in places:
            for problem in PROBLEMS[direction]:
                if asking.applicability(solver, problem, target):
                    check_launches(solver, problem, target)


def check_launches(solver: Solver, problem: ConvProblem, target: Target) -> None:
    """Compare the macros of each program with the arguments of its launches."""
    dtype = problem.tensor_dtype(problem.direction.writes).upper()
    bias, z = BufferArg("bias"), BufferArg("z")
    stores = 0
    for step in solver.solution(problem, target).unbound_steps:
        assert isinstance(step, Launch), problem.key
        macros, arguments = dict(step.kernel.program.defines), step.arguments
        where = (step.kernel.entry, problem.key)
        if bias not in arguments:
            scales = {arguments[i : i + 2] for i in range(len(arguments))}
            assert (f32(ALPHA), f32(BETA)) not in scales, where
            # Those that a kernel of such a program would take.
            assert "CF_BIAS" not in macros or (f32(1.0), f32(0.0)) not in scales, where
            continue
        stores += 1
        at = arguments.index(bias)
        assert arguments[at - 1 : at + 3] == (f32(BETA), bias, z, f32(0.125)), where
        found = [macros.get(name) for name in ("CF_BIAS", "CF_Z", "CF_ACTIVATION")]
        assert found == [dtype, dtype, "LEAKY"], where
    assert stores, problem.key


@pytest.fixture(scope="module")
def seen() -> set[frozenset[KernelSource]]:
    """Sources whose other forms of an epilogue have been checked: one macro stores them all."""
    return set()


@EVERY
def test_a_whole_epilogue_is_applied_once(
    solver: Solver, device: Device, seen: set[frozenset[KernelSource]]
) -> None:
    # Kernels of one vendor need its instructions; those of libraries are not here.
    if any(fnmatch(solver.solver_id, p) for p in ("*nvidia*", "*mma*", "*pipelined*", "hip-*")):
        pytest.skip("runs elsewhere")
    places = as_written(device), as_gpu(device, **GPU)
    taken = [
        (problem, place)
        for place in places
        for direction in asked(solver)
        for problem in PROBLEMS[direction]
        if problem.traffic < 2**22 and asking.applicability(solver, problem, place.target)
    ]
    if not taken:
        pytest.skip("takes none of the layers here")
    # All have edges of tiles on all sides; unoptimised kernels take seconds for large ones.
    least = min(problem.flops for problem, _ in taken)
    small = [(problem, place) for problem, place in taken if problem.flops <= 4 * least]
    problem, place = small[0]
    forms: tuple[ConvProblem, ...] = (problem,)
    sources = frozenset(
        program.source for program in solver.solution(problem, place.target).programs
    )
    if problem.dtype is DataType.FLOAT32 and sources not in seen:
        seen.add(sources)
        result = replace(problem, add=False)  # what is added lies in the result
        last = replace(problem, add_last=True)
        forms = problem, result, last
    shapes = [(place, forms)]
    if small[-1] != small[0]:
        problem, place = small[-1]
        shapes.append((place, (problem,)))
    for place, problems in shapes:
        report = check_solver(solver, place, shapes=problems, every_variant=False)
        assert report.ok, str(report)
