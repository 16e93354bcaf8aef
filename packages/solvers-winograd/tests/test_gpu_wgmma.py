"""What surrounds the product on Hopper's matrix units, which numpy plays here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices_for_tests import disguised

from convfind.checking.accuracy import check_error, error_bound, measure_error, spread_magnitude
from convfind.checking.random_data import random_data
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, InvokeArgs
from convfind.runtime.tensors import tensor_view
from convfind.solver.recipe import BufferArg, Launch
from convfind.types import Direction, Layout
from convfind_solvers_winograd.algorithms import F4X3
from convfind_solvers_winograd.gpu_conv import ConvSolver
from convfind_solvers_winograd.gpu_product import RATES

pytest_plugins = ["convfind.testing.fixtures"]

Array = np.ndarray[Any, Any]
CHANNELS, FILTERS, GROUPS = 36, 20, 2
POINTS = F4X3.n**2


@pytest.fixture
def hopper(convfind_device: Device) -> Device:
    """The device under the name of another."""
    target = convfind_device.target
    return disguised(
        convfind_device,
        backend="opencl",
        kind=DeviceKind.GPU,
        arch="sm_90",
        local_memory=max(target.local_memory, 48 * 1024),
        features=target.features | {"nv-ptx"},
    )


def split_filters(packed: Array) -> tuple[Array, Array, Array]:
    """What lies in packed memory: TF32 numbers, these in bfloat16, and what is left."""
    lines = packed.view(np.uint32).reshape(POINTS, GROUPS, 64, -1, 64)
    high = lines[..., :32].view(np.float32)
    pairs = np.ascontiguousarray(lines[..., 32:]).view(np.uint16).astype(np.uint32) << 16
    # Of eight channels 0 4 1 5 2 6 3 7.
    eights = pairs.view(np.float32).reshape(*high.shape[:-1], 2, 4, 4, 2)
    ordered = np.moveaxis(eights, -1, -2).reshape(*high.shape[:-1], 2, 32)
    depth = high.shape[3] * 32
    return tuple(  # type: ignore[return-value]
        np.ascontiguousarray(part).reshape(POINTS, GROUPS, 64, depth)
        for part in (high, ordered[..., 0, :], ordered[..., 1, :])
    )


def offsets(product: Launch) -> tuple[int, int]:
    """Where data and sums are in the workspace, in bytes."""
    data, _, sums = product.arguments[:3]
    assert isinstance(data, BufferArg)
    assert isinstance(sums, BufferArg)
    return data.offset, sums.offset


def multiplied(workspace: Array, packed: Array, product: Launch, tiles: int) -> None:
    """Multiply rows by columns."""
    high, high_again, left = split_filters(packed)
    assert np.abs(high_again - high).max() <= 2.0**-8 * np.abs(high).max()
    filters = (high.astype(np.float64) + left)[:, :, :FILTERS]
    data_at, sums_at = offsets(product)
    rows, depth = -(-tiles // 4) * 4, -(-CHANNELS // 16) * 16
    data = workspace[data_at:].view(np.float32)[: POINTS * GROUPS * rows * depth]
    values = data.reshape(POINTS, GROUPS, rows, depth)[:, :, :tiles].astype(np.float64)
    sums = np.einsum("pgtc,pgkc->pgtk", values, filters[..., :depth])
    results = np.ascontiguousarray(sums, np.float32).reshape(-1)
    workspace[sums_at : sums_at + results.nbytes] = results.view(np.uint8)


@pytest.mark.parametrize("mma", [2, 3])
def test_what_surrounds_the_product(hopper: Device, mma: int) -> None:
    solver = ConvSolver(F4X3, Direction.FORWARD, channels_last=True)
    problem = ConvProblem.create(
        *("forward", (2, CHANNELS * GROUPS, 9, 10), (FILTERS * GROUPS, CHANNELS, 3, 3)),
        padding=1,
        groups=GROUPS,
        layout=Layout.NHWC,
    )
    tile = next(tile for tile in RATES if tile.mma == mma)
    config = solver.default_config(problem, hopper.target).replace(**tile.values)
    solution = solver.solution(problem, hopper.target, config)
    (prepare,) = (step for step in solution.prepare if isinstance(step, Launch))
    data, product, result = (step for step in solution.steps if isinstance(step, Launch))
    first, second = random_data(problem, 0, "normal")
    memory = {
        "x": first,
        "w": second,
        "y": np.zeros(problem.tensor_layout("y").to_memory(problem.shape("y")), np.float32),
        "workspace": np.zeros(solution.workspace, np.uint8),
        "packed": np.zeros(solution.packed, np.uint8),
    }
    buffers = {name: hopper.allocate(values.nbytes) for name, values in memory.items()}
    for name, values in memory.items():
        hopper.write(buffers[name], values)
    args = InvokeArgs(**buffers)

    def run(*steps: Launch) -> None:
        programs = {step.kernel.program for step in steps}
        loaded = {program: hopper.load(program, hopper.compile(program)) for program in programs}
        hopper.invoker(steps, loaded)(args)
        for name, values in memory.items():
            hopper.read(buffers[name], values)

    run(prepare, data)
    multiplied(memory["workspace"], memory["packed"], product, 2 * 3 * 3)
    hopper.write(buffers["workspace"], memory["workspace"])
    run(result)
    magnitude = reference_magnitude(problem, first, second)
    error = measure_error(
        tensor_view(problem, "y", memory["y"]),
        reference_convolution(problem, first, second, None),
        spread_magnitude(magnitude, solver.error_reach(problem), channels_last=True),
    )
    bound = error_bound(problem, solver.error_bound(problem))
    assert check_error(error, bound), f"{error} over {bound}"
