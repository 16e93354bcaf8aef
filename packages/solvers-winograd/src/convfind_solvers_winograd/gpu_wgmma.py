"""The batched matrix product on Hopper's matrix units: which problems it takes, and its launch."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import Grid, round_up
from convfind.problem import ConvProblem
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import BufferArg, Launch, Memory, i64
from convfind_solvers_winograd.applicability import multiplies_in_tf32
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.gpu_product import RATES, SPLIT_UNIT, Tile
from convfind_solvers_winograd.gpu_sizes import ConvSizes
from convfind_solvers_winograd.programs import GPU

#: Small products in bfloat16 lose less than the rounding of plain sums from these lengths on, for
#: filters of so many taps along an axis: points of the larger ones lose more.
_SHORTEST = {3: 256, 5: 1536, 7: 640}
#: Channels that a step of the kernels takes.
_STEP = 32
#: Local memory of a unit of sm_90, less what work-groups take beside their tiles.
_LOCAL_MEMORY = 224 * 1024
#: Steps of a tile that holds its filters, in local memory or on their way there.
_FEWEST_STAGES, _MOST_STAGES = 3, 6


def splits(problem: ConvProblem, transform: Transform, axes: int, *, channels_last: bool) -> bool:
    """Say whether the data's rows run along the sum, and split floats are precise enough.

    Where TF32 is, too, one product of `gpu_product_mma.cl` is enough instead.
    """
    if not channels_last or multiplies_in_tf32(problem, transform, axes):
        return False
    return problem.reduction >= _SHORTEST[max(problem.filter)]


def fits_channels(tile: Tile, channels: int) -> bool:
    """Say whether there is room to hold filters of so many channels, where a tile does."""
    return not tile.holds or _stages(tile, _blocks(channels)) >= _FEWEST_STAGES


def wgmma_launch(
    sizes: ConvSizes, tile: Tile, data: BufferArg, sums: BufferArg, target: Target
) -> Launch:
    """Return ``sums = data * filters`` by as many work-groups as run at a time."""
    product, blocks = sizes.product, sizes.packed_channels // _STEP
    macros: dict[str, DefineValue] = {
        "TILE_M": tile.tile_m,
        "TILE_N": tile.tile_n,
        "STAGES": _stages(tile, blocks),
    }
    if tile.holds:
        macros["BLOCKS"] = blocks
    program = GPU.program(f"gpu_product_{'held' if tile.holds else 'wgmma'}", macros)
    count = product.count(tile)
    groups = min(count, target.compute_units * RATES[tile].resident)
    return Grid(program, "winograd_gpu_product", groups, tile.threads)(
        *(data, Memory.PACKED, sums),
        i64(sizes.channels * sizes.padded_tiles),
        *(product.rows, product.columns, sizes.channels),
        *(sizes.packed_filters, sizes.filters),
        *(divmod(count, groups) if tile.holds else (blocks, product.matrices)),
    )


def _blocks(channels: int) -> int:
    return round_up(channels, SPLIT_UNIT) // _STEP


def _stages(tile: Tile, blocks: int) -> int:
    """Return how many steps fit into local memory, beside the filters where these are held."""
    rows, filters = 128 * tile.tile_m, 2 * 128 * tile.tile_n
    if tile.holds:
        return min(_MOST_STAGES, (_LOCAL_MEMORY - blocks * filters) // rows)
    return _LOCAL_MEMORY // RATES[tile].resident // (rows + filters)
