"""Implicit GEMM on Hopper's matrix units from tiles that its copy engine (TMA) fetches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from convfind.device.target import Target
from convfind.kit.blocks import (
    ALL_REGISTERS,
    UNIT_REGISTERS,
    Epilogue,
    Grid,
    Limit,
    ProductTile,
    TileRate,
    TunableVariant,
    ceil_div,
    memory_seconds,
    part_bytes,
    product_index,
    register_limit,
    round_up,
)
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import (
    BufferArg,
    Memory,
    Recipe,
    TensorMapArg,
    Windows,
    i64,
)
from convfind.solver.search_space import Parameter, SearchSpace
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_igemm.gpu.geometry import GpuGeometry
from convfind_solvers_igemm.nvidia import form
from convfind_solvers_igemm.nvidia.parts import (
    add_parts,
    most_parts_of,
    moved_bytes,
    parts_filling,
    parts_of,
    parts_parameter,
)
from convfind_solvers_igemm.nvidia.tiles import EXTRA_ROWS, LOCAL_MEMORY
from convfind_solvers_igemm.programs import CUDA

_ARCH = "sm_90"
#: Matrix units cut off what they add up: sums that are left to them whole must not be longer.
_LONGEST = 32768
#: Limits of the driver's maps of windows: steps, how far windows begin before the first element
#: and behind the last one, and how far a tap is behind the first.
_MOST_STEP, _FARTHEST, _LONGEST_REACH = 8, 127, 255
#: Items of the wave that fetches.
_FETCHING = 32
#: Items of a wave, and parts of a unit, each with a share of its registers.
_WAVE, _PARTS = 32, 4
#: The registers that an item needs beside its sums.
_BESIDE_SUMS = 32
#: Bytes beside the tiles, for each row, column and stage; those that each work-group takes.
_BESIDE_ROW, _BESIDE_COLUMN, _BESIDE_STAGE, _RESERVED = 8, 4, 16, 1024
#: Bytes of a sum that is a part of a result's.
_SUM_BYTES = 4
#: A launch that packs the weights, and one that adds up parts.
_PACK_SECONDS, _SUM_SECONDS = 4e-6, 6e-6
_BANDWIDTH_SHARE = 0.85


@dataclass(frozen=True, slots=True)
class TmaTile(ProductTile):
    """Results of a work-group, and how it fetches and stores them: macros of nvidia_tma.cl."""

    stages: int
    line: int = 1  # taps along w that read the same rows
    overlap: int = 0  # 1: work-groups store a tile while they fetch the next one

    @property
    def threads(self) -> int:
        """Items of a work-group."""
        return 2 * self.tile_m + _FETCHING

    def local_bytes(self, result: int) -> int:
        """Local memory, at most; ``result``: bytes of a result."""
        rows = self.tile_m + (EXTRA_ROWS if self.line > 1 else 0)
        stages = self.stages * (rows + self.line * self.tile_n) * form.ROW_BYTES
        results = self.tile_m * self.tile_n * result
        beside = (
            self.tile_m * _BESIDE_ROW + self.tile_n * _BESIDE_COLUMN + self.stages * _BESIDE_STAGE
        )
        return (stages + results if self.overlap else max(stages, results)) + beside

    def room(self, result: int) -> tuple[int, int]:
        """Return how many work-groups a unit holds, and the most registers an item may then take.

        As many as memory takes, if the sums then fit registers. ``result``: bytes of a result.
        """
        waves, needed = ceil_div(self.threads, _WAVE), self.tile_n // 2 + _BESIDE_SUMS
        for places in range(LOCAL_MEMORY // (self.local_bytes(result) + _RESERVED), 0, -1):
            # Waves are dealt out to four parts of a unit, each with a fourth of the registers.
            dealt = ceil_div(places * waves, _PARTS) * _PARTS * _WAVE
            if (registers := UNIT_REGISTERS // dealt // 8 * 8) >= needed:
                return places, min(registers, ALL_REGISTERS)
        return 0, 0


#: Defaults are chosen from these, floats as TF32 and types of 16 bits, also where another tensor is
#: added; where taps share rows, they were measured with three of them.
RATES: dict[str, dict[TmaTile, TileRate]] = {
    "tf32": {
        TmaTile(256, 64, 3, overlap=1): TileRate(1679, 1679, 1, 132),
        TmaTile(192, 128, 5): TileRate(3552, 3552, 1, 650),
        TmaTile(64, 256, 4, overlap=1): TileRate(3169, 3169, 1, 257),
        TmaTile(192, 64, 3, line=3): TileRate(2954, 2954, 1, 409),
        TmaTile(128, 96, 4, overlap=1): TileRate(2480, 2480, 1, 243),
        TmaTile(128, 64, 2, line=3): TileRate(2474, 1283, 2, 199),
        TmaTile(128, 256, 4): TileRate(3569, 3569, 1, 398),
        TmaTile(128, 96, 3, line=3): TileRate(3099, 3099, 1, 419),
        TmaTile(128, 192, 5): TileRate(3488, 3488, 1, 427),
        TmaTile(64, 256, 5): TileRate(3481, 3481, 1, 467),
        TmaTile(64, 128, 2): TileRate(1698, 1223, 4, 87),
    },
    "narrow": {
        TmaTile(64, 64, 4, overlap=1): TileRate(3043, 2590, 3, 134),
        TmaTile(192, 128, 5): TileRate(6275, 6275, 1, 674),
        TmaTile(64, 256, 4, overlap=1): TileRate(6158, 6158, 1, 333),
        TmaTile(128, 64, 2, line=3, overlap=1): TileRate(4735, 2721, 2, 172),
        TmaTile(64, 128, 3, overlap=1): TileRate(3923, 2941, 2, 123),
        TmaTile(128, 192, 5): TileRate(6800, 6800, 1, 559),
        TmaTile(64, 192, 5): TileRate(5691, 5691, 1, 680),
        TmaTile(128, 256, 4): TileRate(6623, 6623, 1, 516),
        TmaTile(128, 64, 4, overlap=1): TileRate(3217, 3217, 1, 271),
    },
    "tf32-added": {
        TmaTile(64, 64, 4, overlap=1): TileRate(1710, 1040, 2, 199),
        TmaTile(192, 128, 5): TileRate(3336, 3336, 1, 565),
        TmaTile(64, 256, 5): TileRate(3651, 3651, 1, 913),
        TmaTile(128, 64, 2, line=3): TileRate(2816, 1619, 2, 380),
        TmaTile(128, 128, 3): TileRate(3386, 2495, 2, 505),
        TmaTile(64, 128, 3, overlap=1): TileRate(2060, 1617, 2, 263),
        TmaTile(128, 128, 3, line=3): TileRate(3625, 3625, 1, 667),
    },
    "narrow-added": {
        TmaTile(64, 64, 4, overlap=1): TileRate(3919, 2774, 3, 329),
        TmaTile(192, 128, 5): TileRate(6237, 6237, 1, 701),
        TmaTile(64, 128, 3, overlap=1): TileRate(4735, 2904, 2, 387),
        TmaTile(128, 64, 2, line=3, overlap=1): TileRate(4677, 4677, 2, 313),
        TmaTile(128, 128, 3, line=3): TileRate(6672, 6672, 1, 784),
    },
}


class TmaConvSolver(TunableVariant):
    """A result from a source and the weights, channels last, on CUDA."""

    algorithm = Algorithm.IMPLICIT_GEMM
    prefix = "igemm-nvidia-tma"
    channels_last = True
    backends = ("cuda",)
    domain = form.DOMAIN
    is_dynamic = True

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what maps of tensors describe, and sums that are exact enough, on Hopper."""
        if target.arch != _ARCH:
            return Rejected(Reason.ARCHITECTURE, f"is for {_ARCH}, not {target.arch}")
        if form.products(problem) > 1:
            return Rejected(Reason.ACCURACY, "floats are rounded to TF32, which is not allowed")
        shape = form.geometry_of(problem)
        pieces = form.PIECE_BYTES // problem.dtype.size
        if form.filled_bytes(problem, shape) or any(
            not form.whole(problem, number) for number in (shape.channels, shape.filters)
        ):
            return Rejected(Reason.CHANNELS, f"{pieces} channels are read at a time")
        if shape.groups > 1 and shape.channels % (form.ROW_BYTES // problem.dtype.size):
            return Rejected(Reason.GROUPS, "a step of the sum would reach into another group")
        longest = shape.taps * shape.channels
        if longest > _LONGEST:
            detail = f"sums of {longest} products, more than {_LONGEST}"
            return Rejected(Reason.ACCURACY, detail)
        if shape.size[0] > 1 or shape.window[0] > 1 or shape.padding[0]:
            return Rejected(Reason.SPATIAL_RANK, "maps of windows are made of two axes")
        if shape.phases > 1:
            return Rejected(Reason.STRIDE, "the data gradient of a stride has several windows")
        if (size := shape.too_large) is not None:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {size}")
        if (beyond := _beyond_maps(shape)) is not None:
            return Rejected(Reason.SIZE_LIMIT, beyond)
        return APPLICABLE

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles that fit registers and local memory; parts where tiles do not fill the device."""
        shape = form.geometry_of(problem)
        product, most = form.MatrixProduct(shape), _most_parts(problem, shape, target)
        size, units = problem.dtype.size, target.compute_units
        result = _SUM_BYTES if most > 1 else size
        parts = (
            number
            for tile, rate in _tiles(problem, shape)
            for number in parts_filling(product.tiles(tile), units, rate.resident, most)
        )
        return SearchSpace(
            (
                Parameter("tile_m", (64, 128, 192, 256), "positions of a work-group"),
                Parameter("tile_n", (64, 96, 128, 160, 192, 256), "channels of a work-group"),
                Parameter("stages", (2, 3, 4, 5, 6, 8), "tiles in local memory or on their way"),
                Parameter("overlap", (0, 1), "1: a tile is stored while the next one is fetched"),
                *(
                    (Parameter("line", (1, shape.window[2]), "taps that read the same rows"),)
                    if form.can_share_rows(problem, shape)
                    else ()
                ),
                *parts_parameter(parts, most),
            ),
            (
                TmaTile.constraint(
                    *("rows", lambda tile: tile.tile_n * size % form.ROW_BYTES == 0),
                    "rows of results are spread over whole rounds of the banks",
                ),
                TmaTile.constraint(
                    "registers",
                    lambda tile: tile.room(result)[0] > 0,
                    "a unit has registers for one work-group",
                ),
            ),
            lambda config: TmaTile.of(config).local_bytes(result),
            LOCAL_MEMORY,
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The measured tile, and the number of parts, that are expected to be quickest."""
        shape = form.geometry_of(problem)
        tile, parts, _ = _best(problem, shape, target)
        config = Config(tile.values)
        if not form.can_share_rows(problem, shape):
            config = config.without("line")
        return Config(config, parts=parts) if _most_parts(problem, shape, target) > 1 else config

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The index of the best tile, or of memory where that is slower."""
        shape = form.geometry_of(problem)
        more = _PACK_SECONDS if _filter(problem, shape).packed_bytes else 0.0
        seconds = _best(problem, shape, target)[2]
        return product_index(problem, target, seconds, _BANDWIDTH_SHARE, more)

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch; before it one that turns weights, behind it that of a split sum."""
        shape, tile = form.geometry_of(problem), TmaTile.of(config)
        packed, product = _filter(problem, shape), form.MatrixProduct(shape, tile.line > 1)
        parts = parts_of(problem, config, limit, 0, packed.packed_bytes)
        places, registers = tile.room(_SUM_BYTES if parts > 1 else problem.dtype.size)
        options = register_limit(target, registers)
        program = _program(problem, tile, options, splits_sum=parts > 1)
        position_tiles = ceil_div(product.rows, tile.tile_m)
        channel_tiles = ceil_div(product.columns, tile.tile_n)
        (_, step_h, step_w), (_, first_h, first_w), (_, tap_h, tap_w) = _walk(shape)
        _, window_h, window_w = shape.window
        tiles = product.tiles(tile) * parts
        groups = min(tiles, places * target.compute_units) if tile.overlap else tiles
        launch = Grid(program, "igemm_nvidia_tma", groups, tile.threads)(
            _source_map(problem, shape, tile),
            _filter_map(problem, shape, tile, packed),
            BufferArg(shape.result if parts == 1 else Memory.WORKSPACE),
            *Epilogue.of(problem).arguments,
            *(tiles, groups, channel_tiles, position_tiles, shape.groups, product.rows),
            *(shape.channels, shape.filters, window_h, window_w, tap_h, tap_w),
            *(-(window_h - 1) * tap_h if tap_h < 0 else 0,),
            *(-(window_w - 1) * tap_w if tap_w < 0 else 0,),
            *(first_h, first_w, step_h, step_w, *product.counts[1:], shape.out[2]),
            *((parts, i64(problem.elements(shape.result))) if parts > 1 else ()),
        )
        return Recipe(
            self.solver_id,
            (launch, *((add_parts(problem, program, 0, parts),) if parts > 1 else ())),
            prepare=(packed.launch(program),) if packed.packed_bytes else (),
            workspace=parts * part_bytes(problem) if parts > 1 else 0,
            packed=packed.packed_bytes,
            config=config,
        )


def _filter(problem: ConvProblem, shape: GpuGeometry) -> form.Filter:
    return form.Filter(problem, shape, by_maps=True)


def _length(problem: ConvProblem, shape: GpuGeometry) -> int:
    """Products of a result's sum, with what fills steps up."""
    return round_up(shape.channels, form.ROW_BYTES // problem.dtype.size) * shape.taps


def _most_parts(problem: ConvProblem, shape: GpuGeometry, target: Target) -> int:
    return most_parts_of(_length(problem, shape), shape, target)


def _tiles(problem: ConvProblem, shape: GpuGeometry) -> Iterator[tuple[TmaTile, TileRate]]:
    """The measured tiles that a problem may have, with as many taps in a line as it has."""
    kind = "tf32" if problem.dtype is DataType.FLOAT32 else "narrow"
    for tile, rate in RATES[f"{kind}-added" if problem.add else kind].items():
        if tile.line == 1:
            yield tile, rate
        elif form.can_share_rows(problem, shape):
            longer = replace(tile, line=shape.window[2])
            if longer.room(_SUM_BYTES)[0]:
                yield longer, rate


def _walk(shape: GpuGeometry) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Along each axis: from window to window, where the first begins, and from tap to tap.

    Taps of the data gradient are met from the last one on.
    """
    if not shape.is_gradient:
        return shape.stride, tuple(-pad for pad in shape.padding), shape.dilation
    axes = zip(shape.padding, shape.window, shape.dilation, strict=True)
    first = tuple(pad - (window - 1) * dilation for pad, window, dilation in axes)
    return (1, 1, 1), first, tuple(-dilation for dilation in shape.dilation)


def _beyond_maps(shape: GpuGeometry) -> str | None:
    """The part of a convolution that maps of windows do not take; None if they take all."""
    for step, first, tap, window, count, size in zip(
        *_walk(shape), shape.window, shape.out, shape.size, strict=True
    ):
        upper = first + (count - 1) * step + 1 - size
        if step > _MOST_STEP:
            return f"a stride of {step}, more than {_MOST_STEP}"
        # Where taps share rows, windows begin up to EXTRA_ROWS further on.
        if abs(first) > _FARTHEST or not -_FARTHEST <= upper <= _FARTHEST - EXTRA_ROWS:
            return f"windows that begin at {first} and {upper} behind the end"
        if (reach := (window - 1) * abs(tap)) > _LONGEST_REACH:
            return f"a window of {reach + 1}, more than {_LONGEST_REACH + 1}"
    return None


def _source_map(problem: ConvProblem, shape: GpuGeometry, tile: TmaTile) -> TensorMapArg:
    steps, first, _ = _walk(shape)
    counts = form.MatrixProduct(shape, tile.line > 1).counts
    extra = EXTRA_ROWS if tile.line > 1 else 0
    channels, (_, h, w) = shape.groups * shape.channels, shape.size
    return TensorMapArg(
        *(shape.source, 0, problem.dtype),
        sizes=(channels, w, h, shape.images),
        strides=(channels, channels * w, channels * w * h),
        box=(form.ROW_BYTES // problem.dtype.size, tile.tile_m + extra),
        rounds=problem.dtype is DataType.FLOAT32,
        windows=Windows(
            first=(first[2], first[1]),
            counts=(counts[2], counts[1]),
            steps=(steps[2], steps[1]),
        ),
    )


def _filter_map(
    problem: ConvProblem, shape: GpuGeometry, tile: TmaTile, packed: form.Filter
) -> TensorMapArg:
    return TensorMapArg(
        *(Memory.PACKED if packed.packed_bytes else Memory.W, 0, problem.dtype),
        sizes=(shape.channels, shape.taps, packed.rows),
        strides=(packed.tap, packed.row),
        box=(form.ROW_BYTES // problem.dtype.size, 1, tile.tile_n),
        rounds=problem.dtype is DataType.FLOAT32,
    )


def _program(
    problem: ConvProblem, tile: TmaTile, options: tuple[str, ...], *, splits_sum: bool
) -> Program:
    macros: dict[str, DefineValue] = {
        "TILE_M": tile.tile_m,
        "TILE_N": tile.tile_n,
        "STAGES": tile.stages,
        "LINE": tile.line,
        "OVERLAP": tile.overlap == 1,
        "CHANNELS_LAST": True,
        "BACKWARD": problem.direction is Direction.BACKWARD_DATA,
        "DTYPE": problem.dtype.upper(),
        **({"PARTIAL": True} if splits_sum else {}),
        **Epilogue.of(problem).defines,
    }
    return CUDA.program("nvidia_tma", macros, options=options)


def _best(problem: ConvProblem, shape: GpuGeometry, target: Target) -> tuple[TmaTile, int, float]:
    """The tile and the number of parts that take the fewest seconds, and these."""
    units, steps = target.compute_units, _length(problem, shape)
    most = _most_parts(problem, shape, target)

    def needed(tile: TmaTile, rate: TileRate, tiles: int, parts: int) -> float:
        needed = rate.seconds(tile, steps / parts, tiles * parts, units)
        moved = moved_bytes(problem, parts)
        if not moved:
            return needed
        return needed + _SUM_SECONDS + memory_seconds(moved, target, _BANDWIDTH_SHARE)

    return min(
        (
            (tile, parts, needed(tile, rate, tiles, parts))
            for tile, rate in _tiles(problem, shape)
            for tiles in (form.MatrixProduct(shape, tile.line > 1).tiles(tile),)
            for parts in parts_filling(tiles, units, rate.resident, most)
        ),
        key=lambda choice: choice[2],
    )
