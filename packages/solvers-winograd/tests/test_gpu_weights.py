"""The weight gradient on Hopper's matrix units, which numpy plays here, and its shares."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from devices_for_tests import H200, disguised

from convfind.checking.accuracy import check_error, error_bound, measure_error, spread_magnitude
from convfind.checking.random_data import random_data
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, InvokeArgs
from convfind.runtime.tensors import tensor_view
from convfind.solver.recipe import BufferArg, Launch
from convfind.testing import MOCK_TARGET
from convfind.types import Layout
from convfind_solvers_winograd.algorithms import F3X4, F3X5, F3X6
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.gpu_product import Tile
from convfind_solvers_winograd.gpu_weights import WeightsSolver
from convfind_solvers_winograd.gpu_weights_cover import cover
from convfind_solvers_winograd.gpu_weights_wgmma import STREAM_RATES, Stream, stream_tiles

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


def pairs_of_tiles(stream: Stream) -> list[range]:
    """Pairs of blocks, along the sum, that each tile of the products sums up."""
    n, tiles = stream.cover.transform.n, stream.cover
    found = []
    for point in range(n * n):
        last_row, last_column = point // n == n - 1, point % n == n - 1
        begin = tiles.ends[0] if last_column else 0
        end = begin + tiles.depth(last_row=last_row, last_column=last_column)
        found += [range(begin // 64, end // 64)] * stream.tiles_of_point
    return found


def shares(stream: Stream) -> list[dict[int, range]]:
    """Pairs of each tile that a work-group takes, of all work-groups."""
    share, longer = stream.share
    tiles = pairs_of_tiles(stream)
    turns = [(number, pair) for number, pairs in enumerate(tiles) for pair in (*pairs, None)]
    assert len(turns) == stream.turns
    found: list[dict[int, range]] = []
    end = 0
    for group in range(stream.work_groups):
        first, end = end, end + share + (group < longer)
        own: dict[int, list[int]] = {}
        for number, pair in turns[first:end]:
            if pair is not None:
                own.setdefault(number, []).append(pair)
        found.append({number: range(pairs[0], pairs[-1] + 1) for number, pairs in own.items()})
    assert end == len(turns)
    return found


@pytest.mark.parametrize("transform", [F3X4, F3X5])
@pytest.mark.parametrize("tile", STREAM_RATES)
def test_steps_are_shared_out(tile: Tile, transform: Transform) -> None:
    for images, size, rows, columns in ((64, 14, 256, 256), (64, 7, 64, 3), (1, 3, 5, 7)):
        one = cover(transform, images, (size, size), 64, channels_last=True)
        stream = Stream(tile, one, 1, rows, columns, 132)
        tiles = pairs_of_tiles(stream)
        assert len(tiles) == stream.count
        own = shares(stream)
        assert all(own)
        of_tiles = [(number, pair) for share in own for number in share for pair in share[number]]
        assert of_tiles == [(number, pair) for number, pairs in enumerate(tiles) for pair in pairs]
        # A tile's end counts as much as a pair: its own and the work-group's.
        loads = [sum(map(len, share.values())) + len(share) for share in own]
        assert max(loads) - min(loads) <= 3
        places = [number + group for group, share in enumerate(own) for number in share]
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


def test_larger_tiles_want_longer_sums() -> None:
    """As errors grow faster than the bounds on them."""
    target = replace(MOCK_TARGET, identity="", **HOPPER)
    for transform, shortest in ((F3X4, 2048), (F3X5, 4096), (F3X6, 8192)):
        for images in (1, 2, 4, 8, 16):
            problem = problem_for((images, 8, 32, 32), 8, layout=Layout.NHWC)
            enough = images * 32 * 32 >= shortest
            assert bool(stream_tiles(problem, transform, target)) is enough


@pytest.mark.parametrize(
    ("images", "channels", "size", "best"),
    [
        pytest.param(64, 256, 14, F3X5, id="14x14"),
        pytest.param(64, 512, 7, F3X4, id="7x7"),
        pytest.param(16, 512, 14, F3X4, id="few-images"),
        pytest.param(64, 128, 28, F3X6, id="28x28"),
        pytest.param(64, 64, 56, F3X6, id="56x56"),
        pytest.param(16, 256, 56, F3X6, id="vgg-56x56"),
        pytest.param(16, 128, 12, F3X4, id="short-sums"),
    ],
)
def test_tiles_that_were_quickest_come_first(
    images: int, channels: int, size: int, best: Transform
) -> None:
    """On an H200."""
    problem = problem_for((images, channels, size, size), channels, layout=Layout.NHWC)

    def index(transform: Transform) -> float:
        return WeightsSolver(transform, channels_last=True).wti(problem, H200) or 0.0

    assert max((F3X4, F3X5, F3X6), key=index) is best


@pytest.mark.parametrize("transform", [F3X4, F3X5, F3X6])
def test_short_tiles_save_products(transform: Transform) -> None:
    n, r = transform.n, transform.r

    def products(height: int, width: int, images: int = 64, last: bool = True) -> int:
        return cover(transform, images, (height, width), 64, channels_last=last).products

    tiles = (2, 3)
    for height, width in product(range(r + 1, 2 * r + 1), range(2 * r + 1, 3 * r + 1)):
        # Each axis takes its elements and two more a tile; one of its tiles at least is whole.
        rows, columns = (
            max(size + 2 * count, count * (n - 1) + 1)
            for size, count in zip((height, width), tiles, strict=True)
        )
        assert products(height, width) == 64 * rows * columns
        assert products(height, width, last=False) == 64 * n * n * tiles[0] * tiles[1]
    # With one image regions are mostly filled up.
    assert products(2 * r - 1, 2 * r - 1, images=1) == 64 * n * n


def operand(workspace: Array, at: BufferArg, stream: Stream, rows: int) -> Array:
    """Read [matrix][block][row][32], whose pieces of four are shuffled, as [matrix][row][tile]."""
    padded, depth = -(-rows // 64) * 64, stream.cover.tiles
    matrices, blocks = stream.cover.transform.n**2 * stream.groups, depth // 32
    count = matrices * blocks * padded * 32
    values = workspace[at.offset :].view(np.float32)[:count].astype(np.float64)
    shuffled = values.reshape(matrices, blocks, padded, 8, 4)[:, :, :rows]
    number = np.arange(rows)[:, None]
    ordered = shuffled[:, :, number, np.arange(8) ^ number % 8]
    return np.moveaxis(ordered, 1, 2).reshape(matrices, rows, depth)


def multiplied(workspace: Array, product: Launch, stream: Stream, *, add: bool) -> None:
    """Do what the product does; ``add`` says whether sums go on."""
    filters_at, channels_at, sums_at, *_ = product.arguments
    assert isinstance(filters_at, BufferArg)
    assert isinstance(channels_at, BufferArg)
    assert isinstance(sums_at, BufferArg)
    a = operand(workspace, filters_at, stream, stream.rows)
    b = operand(workspace, channels_at, stream, stream.columns)
    size = stream.tile.tile_m, stream.tile.tile_n
    sums = workspace[sums_at.offset :].view(np.float32)[: stream.sums_bytes // 4]
    places = sums.reshape(-1, *size)
    for group, share in enumerate(shares(stream)):
        for tile, pairs in share.items():
            first, end = 64 * pairs.start, 64 * pairs.stop
            rest, column = divmod(tile, stream.column_tiles)
            matrix, row = divmod(rest, stream.row_tiles)
            rows = a[matrix, row * size[0] : (row + 1) * size[0], first:end]
            columns = b[matrix, column * size[1] : (column + 1) * size[1], first:end]
            place = places[tile + group]
            if not add:
                place[:] = np.nan
            part = place[: len(rows), : len(columns)]
            part[:] = rows @ columns.T + (part if add else 0.0)


@pytest.mark.parametrize(
    ("transform", "images", "size", "shortens"),
    [
        pytest.param(F3X4, 3, (27, 30), False, id="f3x4"),
        pytest.param(F3X4, 64, (7, 3), True, id="f3x4-short"),
        pytest.param(F3X5, 64, (13, 9), True, id="f3x5-short"),
        pytest.param(F3X6, 64, (4, 11), True, id="f3x6-short"),
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_what_surrounds_the_product(
    convfind_device: Device,
    last: bool,
    transform: Transform,
    images: int,
    size: tuple[int, int],
    shortens: bool,
) -> None:
    """Also in parts of the batch, of which the last one is smaller."""
    device = disguised(convfind_device, **HOPPER)
    solver = WeightsSolver(transform, channels_last=last)
    layout = Layout.NHWC if last else Layout.NCHW
    problem = problem_for((images, 40, *size), 140, groups=2, layout=layout, alpha=0.5)
    config = solver.default_config(problem, device.target).replace(**SMALL.values, parts=1)
    whole = solver.solution(problem, device.target, config)
    cut = solver.solution(problem, device.target, config, whole.total_workspace * 4 // 5)
    assert (len(whole.steps), len(cut.steps)) == (3, 5)
    assert cover(transform, images, size, 64, channels_last=last).shortens is (shortens and last)
    first, second = random_data(problem, 0, "normal")
    results = problem.tensor_layout("w").to_memory(problem.shape("w"))
    reference = reference_convolution(problem, first, second, None)
    magnitude = spread_magnitude(
        reference_magnitude(problem, first, second),
        solver.error_reach(problem),
        channels_last=last,
    )
    (program,) = (p for p in whole.programs if "wgmma" not in str(p.source))
    loaded = {program: device.load(program, device.compile(program))}
    for solution in (whole, cut):
        together = images if solution is whole else -(-images // 2)
        stream = Stream(
            SMALL, cover(transform, together, size, 64, channels_last=last), 2, 70, 20, 5
        )
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
        for number, step in enumerate(solution.steps):
            assert isinstance(step, Launch)
            if step.kernel.entry == "winograd_gpu_product":
                device.read(buffers["workspace"], memory["workspace"])
                multiplied(memory["workspace"], step, stream, add=number > 1)
                device.write(buffers["workspace"], memory["workspace"])
            else:
                device.invoker((step,), loaded)(args)
        device.read(buffers["w"], memory["w"])
        error = measure_error(tensor_view(problem, "w", memory["w"]), reference, magnitude)
        bound = error_bound(problem, solver.error_bound(problem))
        assert check_error(error, bound), f"{error} over {bound}"
