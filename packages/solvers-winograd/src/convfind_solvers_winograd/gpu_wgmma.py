"""The batched matrix product on Hopper's matrix units: which problems it takes, and its launch."""

from __future__ import annotations

from convfind.defines import DefineValue, make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.solution import BufferArg, Launch, Memory, i32, i64
from convfind.target import Target
from convfind_solvers_winograd.algorithms import F4X3
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.gpu_product import RATES, Tile
from convfind_solvers_winograd.gpu_sizes import ConvSizes

#: Small products in bfloat16 lose less than the rounding of plain sums from these lengths on, for
#: filters of so many taps along an axis: points of the larger ones lose more.
_SHORTEST = {3: 256, 5: 2048}
#: Channels that a step of the kernel takes.
_STEP = 32


def splits(problem: ConvProblem, *, channels_last: bool) -> bool:
    """Say whether the data's rows run along the sum, and split floats are precise enough.

    Where TF32 is allowed, one product of `gpu_product_mma.cl` is enough instead.
    """
    if not channels_last or problem.allow_tf32:
        return False
    return problem.reduction >= _SHORTEST[problem.filter[0]]


def fits_transform(tile: Tile, transform: Transform) -> bool:
    """Say whether a tile is for a transform: joined points of F(4, 3) fill the registers."""
    return not tile.joined or transform is F4X3


def wgmma_launch(
    sizes: ConvSizes, tile: Tile, data: BufferArg, sums: BufferArg, target: Target
) -> Launch:
    """Return ``sums = data * filters`` by as many work-groups as run at a time."""
    product, shape = sizes.product, sizes.shape
    macros: dict[str, DefineValue] = {
        "TILE_M": tile.tile_m,
        "TILE_N": tile.tile_n,
        "STAGES": tile.stages,
        "POINTS_JOINED": product.line if tile.joined else 1,
    }
    program = Program(
        KernelSource("convfind_solvers_winograd", "kernels/gpu_product_wgmma.cl"),
        KernelLanguage.OPENCL_C,
        make_defines(macros),
    )
    groups = min(product.count(tile), target.compute_units * RATES[tile].resident)
    lines = product.matrices // (product.line if tile.joined else 1)
    return Launch(
        KernelSpec(program, "winograd_gpu_product"),
        (
            *(data, BufferArg(Memory.PACKED), sums),
            *map(i32, (product.rows, product.columns, sizes.channels)),
            *map(i32, (sizes.packed_channels // _STEP, sizes.packed_filters, sizes.filters)),
            i64(sizes.channels * sizes.padded_tiles),
            *map(i32, (lines, shape.groups, groups)),
        ),
        (groups * tile.threads,),
        (tile.threads,),
    )
