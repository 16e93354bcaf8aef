"""Every forward solver stores with a bias, a z of its own and an activation, which nothing has yet.

Its recipe is rewritten: programs get the macros of `convfind_epilogue.h`, launches the arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.checking.accuracy import random_data
from convfind.checking.reference import reference_convolution
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, InvokeArgs
from convfind.runtime.tensors import tensor_view
from convfind.solver import Solver, asking
from convfind.solver.defines import make_defines
from convfind.solver.kernel_spec import KernelSpec
from convfind.solver.recipe import Argument, BufferArg, Launch, Memory, Recipe, Step, align, f32
from convfind.types import DataType

sys.path.append(str(Path(__file__).parents[1]))
from devices_for_tests import as_gpu, as_written

Array = np.ndarray[Any, Any]

#: Told apart from all other arguments.
ALPHA, BETA = 0.8125, 0.40625
SLOPE = 0.125  # of LEAKY, below zero
NAN = 0xFF  # repeated
#: What results may differ by, of the largest: transforms lose some digits.
CLOSE = {DataType.FLOAT32: 2e-4, DataType.FLOAT16: 2e-3}

#: Layers with edges of tiles on all sides; each in both layouts and several types.
LAYERS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 20, 13, 17), (37, 20, 3, 3), {"padding": 1}),
    ((2, 300, 9, 11), (37, 300, 1, 1), {}),
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
)
#: Solvers whose kernels need one vendor's instructions, and what converts tensors around a solver.
ELSEWHERE = ("*nvidia*", "*mma*", "*pipelined*", "*widened*", "hip-*")


def problems() -> Iterator[ConvProblem]:
    """The layers, with alpha and beta."""
    for dtype, result in (("float32", "float32"), ("float16", "float16"), ("int8", "float32")):
        for x, w, more in LAYERS:
            for layout in ("NCHW", "NHWC"):
                yield ConvProblem.forward(
                    *(x, w),
                    layout=layout,
                    dtype=dtype,
                    y_dtype=result,
                    alpha=ALPHA,
                    beta=BETA,
                    accuracy="relaxed",
                    **more,
                )


PROBLEMS = tuple(problems())


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = default_registry().backends["opencl"].open("cpu")
    yield opened
    opened.close()


def solvers() -> list[Solver]:
    return [
        solver
        for solver in default_registry().solvers
        if "fwd" in solver.solver_id and not any(fnmatch(solver.solver_id, p) for p in ELSEWHERE)
    ]


@pytest.mark.parametrize("solver", solvers(), ids=lambda solver: solver.solver_id)
def test_a_whole_epilogue_is_applied_once(solver: Solver, device: Device) -> None:
    gpu: dict[str, Any] = {
        "compute_units": 8,
        "local_memory": 48 * 1024,
        "features": frozenset({"dot4"}),
    }
    places = as_written(device), as_gpu(device, **gpu)
    taken = [
        (problem, place)
        for place in places
        for problem in PROBLEMS
        if asking.applicability(solver, problem, place.target)
    ]
    if not taken:
        pytest.skip("takes none of the layers here")
    for problem, place in taken[:2] + taken[-1:]:
        recipe = solver.solution(problem, place.target)
        for has_z in (False, True):
            check(problem, place, recipe, has_z=has_z)


def check(problem: ConvProblem, device: Device, recipe: Recipe, *, has_z: bool) -> None:
    """Compare the result of all that there is, z in y or in memory of its own."""
    x, w = random_data(problem, 7)
    rng = np.random.default_rng(8)
    shape = problem.y_layout.to_memory(problem.y_shape)
    z = rng.uniform(-2.0, 2.0, shape).astype(problem.y_dtype.numpy)
    bias = rng.uniform(-2.0, 2.0, problem.w_shape[0]).astype(problem.y_dtype.numpy)
    along = shape if problem.y_layout.channels_last else (1, -1, *(1 for _ in shape[2:]))
    added = bias.astype("d") if along == shape else bias.astype("d").reshape(along)
    expected = reference_convolution(problem, x, w, z) + added
    expected = np.where(expected < 0, SLOPE * expected, expected)
    result = run(problem, device, recipe, {"x": x, "w": w, "bias": bias, "z": z}, has_z=has_z)
    close = CLOSE[problem.y_dtype] * np.abs(expected).max()
    wrong = ~(np.abs(result - expected) <= close)
    assert not wrong.any(), (problem.key, has_z, np.argwhere(wrong)[:4].tolist(), int(wrong.sum()))


def run(
    problem: ConvProblem,
    device: Device,
    recipe: Recipe,
    tensors: dict[str, Array],
    *,
    has_z: bool,
) -> Array:
    """Run a rewritten recipe; bias and z lie behind its workspace. Elsewhere memory is NaN."""
    flat = {name: array.view(np.uint8).ravel() for name, array in tensors.items()}
    places = {"bias": align(recipe.total_workspace)}
    places["z"] = places["bias"] + align(flat["bias"].size)
    workspace = np.full(places["z"] + flat["z"].size, NAN, np.uint8)
    for name, place in places.items():
        workspace[place : place + flat[name].size] = flat[name]
    y = np.full(flat["z"].size, NAN, np.uint8) if has_z else flat["z"].copy()
    steps = [rewritten(step, problem, places, has_z=has_z) for step in recipe.unbound_steps]
    programs = {step.kernel.program for step in steps if isinstance(step, Launch)}
    loaded = {program: device.load(program, device.compile(program)) for program in programs}
    contents = {"x": flat["x"], "w": flat["w"], "y": y, "workspace": workspace}
    buffers = {name: device.allocate(content.size) for name, content in contents.items()}
    for name, content in contents.items():
        device.write(buffers[name], content)
    device.invoker(steps, loaded)(InvokeArgs(**buffers))
    device.read(buffers["y"], y)
    return tensor_view(problem, "y", y).astype(np.float64)


def rewritten(step: Step, problem: ConvProblem, places: dict[str, int], *, has_z: bool) -> Step:
    """Return a step with all of an epilogue."""
    if not isinstance(step, Launch):
        return step
    program, dtype = step.kernel.program, problem.y_dtype.upper()
    defines = {"CF_BIAS": dtype, "CF_ACTIVATION": "LEAKY", **({"CF_Z": dtype} if has_z else {})}
    if "gemm_" in program.source.path:
        defines["CHANNELS_ARE_ROWS"] = str(int(not problem.y_layout.channels_last))
    program = replace(program, defines=make_defines(dict(program.defines), defines))
    names = ("bias", "z") if has_z else ("bias",)
    more: list[Argument] = [BufferArg(Memory.WORKSPACE, places[name]) for name in names]
    more.append(f32(SLOPE))
    arguments = step.arguments
    for i in range(len(arguments) - 1):
        if arguments[i : i + 2] == (f32(ALPHA), f32(BETA)):
            arguments = (*arguments[: i + 2], *more, *arguments[i + 2 :])
    return replace(step, kernel=KernelSpec(program, step.kernel.entry), arguments=arguments)
