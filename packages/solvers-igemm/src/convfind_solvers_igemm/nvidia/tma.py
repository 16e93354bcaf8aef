"""Implicit GEMM on Hopper's matrix units from tiles that its copy engine (TMA) fetches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import (
    Epilogue,
    Grid,
    Limit,
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
from convfind.solver import APPLICABLE, Applicability, Config, ConfigValue, Reason, Rejected
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
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
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
from convfind_solvers_igemm.nvidia.tma_tiles import RATES, TmaTile, kind_of
from convfind_solvers_igemm.programs import CUDA

_ARCH = "sm_90"
#: Matrix units cut off what they add up: sums that are left to them whole must not be longer.
_LONGEST = 32768
#: Limits of the driver's maps of windows: steps, how far windows begin before the first element
#: and behind the last one, and how far a tap is behind the first.
_MOST_STEP, _FARTHEST, _LONGEST_REACH = 8, 127, 255
#: Bytes of a sum that is a part of a result's.
_SUM_BYTES = 4
#: A launch that packs the weights, and one that adds up parts.
_PACK_SECONDS, _SUM_SECONDS = 4e-6, 6e-6
_BANDWIDTH_SHARE = 0.85
#: The seconds that a row takes to be fetched beside others where channels end within it; twice as
#: many where they end within a sector, of so many bytes.
_PARTIAL_ROW_SECONDS, _SECTOR = 4e-9, 32


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
        parts = (
            number
            for tile, rate in _tiles(problem, shape)
            for number in parts_filling(product.tiles(tile), units, rate.resident, most)
        )

        def result_bytes(config: Config) -> int:
            return _result_bytes(problem, config.get("parts", 1))

        return SearchSpace(
            (
                Parameter("tile_m", (64, 128, 192, 256), "positions of a work-group"),
                Parameter("tile_n", (64, 96, 128, 160, 192, 256), "channels of a work-group"),
                Parameter("stages", (2, 3, 4, 5, 6, 8), "tiles in local memory or on their way"),
                Parameter(
                    *("overlap", (0, 1, 2)),
                    "a tile is stored while the next one is 1: fetched, 2: multiplied",
                ),
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
                Constraint(
                    "registers",
                    lambda config: TmaTile.of(config).room(result_bytes(config))[0] > 0,
                    "a unit has registers for one work-group",
                ),
            ),
            lambda config: TmaTile.of(config).local_bytes(result_bytes(config)),
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
        places, registers = tile.room(_result_bytes(problem, parts))
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


def _result_bytes(problem: ConvProblem, parts: ConfigValue) -> int:
    return problem.dtype.size if parts == 1 else _SUM_BYTES


def _length(problem: ConvProblem, shape: GpuGeometry) -> int:
    """Products of a result's sum, with what fills steps up."""
    return round_up(shape.channels, form.ROW_BYTES // problem.dtype.size) * shape.taps


def _most_parts(problem: ConvProblem, shape: GpuGeometry, target: Target) -> int:
    return most_parts_of(_length(problem, shape), shape, target)


def _tiles(problem: ConvProblem, shape: GpuGeometry) -> Iterator[tuple[TmaTile, TileRate]]:
    """The measured tiles that a problem may have, with as many taps in a line as it has."""
    for tile, rate in RATES[kind_of(problem)].items():
        if tile.line == 1:
            yield tile, rate
        elif form.can_share_rows(problem, shape):
            longer = replace(tile, line=shape.window[2])
            if longer.room(problem.dtype.size)[0]:
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
        "OVERLAP": tile.overlap > 0,
        "TURNS": tile.turns,
        "CHANNELS_LAST": True,
        "BACKWARD": problem.direction is Direction.BACKWARD_DATA,
        "DTYPE": problem.dtype.upper(),
        **({"PARTIAL": True} if splits_sum else {}),
        **Epilogue.of(problem).defines,
    }
    return CUDA.program("nvidia_tma", macros, options=options)


def _fetching_seconds(problem: ConvProblem, shape: GpuGeometry, tile: TmaTile) -> float:
    """Return what rows of a tile take that are not whole, which a unit fetches one by one."""
    ends_at = shape.channels * problem.dtype.size % form.ROW_BYTES
    if not ends_at:
        return 0.0
    rows = shape.taps * (tile.tile_m / tile.line + tile.tile_n)
    return rows * _PARTIAL_ROW_SECONDS * (2 if ends_at % _SECTOR else 1)


def _best(problem: ConvProblem, shape: GpuGeometry, target: Target) -> tuple[TmaTile, int, float]:
    """The tile and the number of parts that take the fewest seconds, and these."""
    units, steps = target.compute_units, _length(problem, shape)
    most = _most_parts(problem, shape, target)

    def needed(tile: TmaTile, rate: TileRate, tiles: int, parts: int) -> float:
        needed = rate.seconds(tile, steps / parts, tiles * parts, units)
        needed += _fetching_seconds(problem, shape, tile) * ceil_div(tiles, units)
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
            if tile.room(_result_bytes(problem, parts))[0]
        ),
        key=lambda choice: choice[2],
    )
