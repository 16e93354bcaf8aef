"""The weight gradient on Hopper's matrix units, which numpy plays here, and its shares."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from devices_for_tests import disguised

from convfind.accuracy import (
    check_error,
    error_bound,
    measure_error,
    random_data,
    spread_magnitude,
)
from convfind.backend import Device, InvokeArgs
from convfind.kernel_spec import KernelLanguage
from convfind.problem import ConvProblem
from convfind.reference import reference_convolution, reference_magnitude
from convfind.solution import BufferArg, Launch, ScalarArg
from convfind.target import DeviceKind
from convfind.tensors import tensor_view
from convfind.testing import MOCK_TARGET
from convfind.types import Layout
from convfind_solvers_winograd.algorithms import F3X4
from convfind_solvers_winograd.gpu_product import Tile
from convfind_solvers_winograd.gpu_weights import WeightsSolver
from convfind_solvers_winograd.gpu_weights_wgmma import STREAM_RATES, Stream

pytest_plugins = ["convfind.testing.fixtures"]

Array = np.ndarray[Any, Any]
SMALL = next(tile for tile in STREAM_RATES if tile.tile_m == tile.tile_n == 64)


#: Another name, and few units.
HOPPER: dict[str, Any] = {
    "backend": "opencl",
    "kind": DeviceKind.GPU,
    "arch": "sm_90",
    "compute_units": 5,
    "local_memory": 96 * 1024,
    "max_work_group": 1024,
    "features": frozenset({"nv-ptx"}),
}


def problem_for(x: tuple[int, ...], filters: int, **options: Any) -> ConvProblem:
    """A problem of 3x3 filters."""
    w = (filters, x[1] // options.get("groups", 1), 3, 3)
    return ConvProblem.create("backward-weights", x, w, padding=1, **options)


def shares(stream: Stream) -> list[range]:
    """Pairs of blocks of each work-group."""
    share, longer = stream.share
    ends = [0]
    for group in range(stream.work_groups):
        ends.append(ends[-1] + share + (group < longer))
    return [range(*both) for both in pairwise(ends)]


@pytest.mark.parametrize("tile", STREAM_RATES)
def test_steps_are_shared_out_evenly(tile: Tile) -> None:
    for matrices, rows, columns, depth in ((36, 256, 256, 1024), (36, 64, 3, 64), (1, 5, 7, 64)):
        stream = Stream(tile, matrices, rows, columns, depth, 132)
        own = shares(stream)
        assert own[-1].stop == stream.count * stream.pairs
        assert max(map(len, own)) - min(map(len, own)) <= 1
        places = [
            pair // stream.pairs + group
            for group, pairs in enumerate(own)
            for pair in sorted({pair - pair % stream.pairs for pair in pairs})
        ]
        assert len(set(places)) == len(places)
        assert max(places) * 4 * tile.tile_m * tile.tile_n < stream.sums_bytes


def test_long_sums_in_full_precision_are_streamed() -> None:
    target = replace(MOCK_TARGET, identity="", **HOPPER | {"compute_units": 132})
    for last in (False, True):
        solver = WeightsSolver(F3X4, channels_last=last)
        layout = Layout.NHWC if last else Layout.NCHW
        long, short = ((images, 128, 28, 28) for images in (64, 1))
        for x, options, device, expected in (
            (long, {}, target, True),
            (short, {}, target, False),
            (long, {"allow_tf32": True}, target, False),
            (long, {}, replace(target, identity="", arch="sm_80"), False),
        ):
            problem = problem_for(x, 128, layout=layout, **options)
            space = solver.search_space(problem, device)
            default = solver.default_config(problem, device)
            assert default in space
            streamed = default.replace(**SMALL.values, parts=1)
            assert (streamed in space) is expected
            assert streamed.replace(parts=2) not in space
            assert Tile.of(default).splits is expected


def operand(workspace: Array, at: BufferArg, stream: Stream, rows: int) -> Array:
    """Read [matrix][block][row][32], whose pieces of four are shuffled, as [matrix][row][tile]."""
    padded, blocks = -(-rows // 64) * 64, stream.depth // 32
    count = stream.matrices * blocks * padded * 32
    values = workspace[at.offset :].view(np.float32)[:count].astype(np.float64)
    shuffled = values.reshape(stream.matrices, blocks, padded, 8, 4)[:, :, :rows]
    number = np.arange(rows)[:, None]
    ordered = shuffled[:, :, number, np.arange(8) ^ number % 8]
    return np.moveaxis(ordered, 1, 2).reshape(stream.matrices, rows, stream.depth)


def multiplied(workspace: Array, product: Launch, stream: Stream) -> None:
    """Do what the product does; the last number says whether sums go on."""
    filters_at, channels_at, sums_at, *_, add = product.arguments
    assert isinstance(filters_at, BufferArg)
    assert isinstance(channels_at, BufferArg)
    assert isinstance(sums_at, BufferArg)
    assert isinstance(add, ScalarArg)
    a = operand(workspace, filters_at, stream, stream.rows)
    b = operand(workspace, channels_at, stream, stream.columns)
    size = stream.tile.tile_m, stream.tile.tile_n
    sums = workspace[sums_at.offset :].view(np.float32)[: stream.sums_bytes // 4]
    places = sums.reshape(-1, *size)
    for group, pairs in enumerate(shares(stream)):
        for tile in range(pairs.start // stream.pairs, (pairs.stop - 1) // stream.pairs + 1):
            first = max(pairs.start - tile * stream.pairs, 0) * 64
            end = min(pairs.stop - tile * stream.pairs, stream.pairs) * 64
            rest, column = divmod(tile, stream.column_tiles)
            matrix, row = divmod(rest, stream.row_tiles)
            rows = a[matrix, row * size[0] : (row + 1) * size[0], first:end]
            columns = b[matrix, column * size[1] : (column + 1) * size[1], first:end]
            place = places[tile + group]
            if not add.value:
                place[:] = np.nan
            part = place[: len(rows), : len(columns)]
            part[:] = rows @ columns.T + (part if add.value else 0.0)


@pytest.mark.parametrize("last", [False, True])
def test_what_surrounds_the_product(convfind_device: Device, last: bool) -> None:
    """Also in parts of the batch, of which the last one is smaller."""
    device = disguised(convfind_device, **HOPPER)
    solver = WeightsSolver(F3X4, channels_last=last)
    layout = Layout.NHWC if last else Layout.NCHW
    problem = problem_for((3, 40, 27, 30), 140, groups=2, layout=layout, alpha=0.5)
    config = solver.default_config(problem, device.target).replace(**SMALL.values, parts=1)
    whole = solver.solution(problem, device.target, config)
    cut = solver.solution(problem, device.target, config, whole.total_workspace * 4 // 5)
    assert (len(whole.steps), len(cut.steps)) == (3, 5)
    first, second = random_data(problem, 0, "normal")
    results = problem.tensor_layout("w").to_memory(problem.shape("w"))
    reference = reference_convolution(problem, first, second, None)
    magnitude = spread_magnitude(
        reference_magnitude(problem, first, second),
        solver.error_reach(problem),
        channels_last=last,
    )
    (program,) = (p for p in whole.programs if p.language is KernelLanguage.SHARED)
    loaded = {program: device.load(program, device.compile(program))}
    for solution in (whole, cut):
        tiles = (2 if solution is cut else 3) * 7 * 8
        stream = Stream(SMALL, 36 * 2, 70, 20, -(-tiles // 64) * 64, 5)
        memory = {
            "x": first,
            "w": np.zeros(results, np.float32),
            "y": second,
            "workspace": np.full(solution.workspace, 0x7F, np.uint8),
        }
        buffers = {name: device.allocate(values.nbytes) for name, values in memory.items()}
        for name, values in memory.items():
            device.write(buffers[name], values)
        args = InvokeArgs(**buffers)
        for step in solution.steps:
            assert isinstance(step, Launch)
            if step.kernel.entry == "winograd_gpu_product":
                device.read(buffers["workspace"], memory["workspace"])
                multiplied(memory["workspace"], step, stream)
                device.write(buffers["workspace"], memory["workspace"])
            else:
                device.invoker((step,), loaded)(args)
        device.read(buffers["w"], memory["w"])
        error = measure_error(tensor_view(problem, "w", memory["w"]), reference, magnitude)
        bound = error_bound(problem, solver.error_bound(problem))
        assert check_error(error, bound), f"{error} over {bound}"
