"""Implicit GEMM on NVIDIA's matrix units (Hopper's wgmma): forward and the data gradient."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import (
    Epilogue,
    Grid,
    Limit,
    TileRate,
    memory_seconds,
    part_bytes,
    product_index,
    register_limit,
)
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Memory, Recipe, align, i32, i64
from convfind.solver.search_space import SearchSpace
from convfind.types import DataType, Direction
from convfind_solvers_igemm.gpu.geometry import GpuGeometry
from convfind_solvers_igemm.gpu.sized import SizedVariant
from convfind_solvers_igemm.nvidia import form
from convfind_solvers_igemm.nvidia.parts import (
    add_parts,
    most_parts,
    moved_bytes,
    parts_filling,
    parts_of,
    parts_parameter,
    sum_length,
)
from convfind_solvers_igemm.nvidia.tiles import (
    LOCAL_MEMORY,
    NARROW,
    RATES,
    MatrixTile,
    constraints,
    parameters,
)
from convfind_solvers_igemm.programs import GPU

_ARCH = "sm_90"
#: The share of the measured speed that gathering leaves.
_EFFICIENCY = {form.PIECES: 1.0, form.EACH: 0.65, form.FLAT: 0.68, form.FLAT_PIECES: 0.9}
#: Rates by products.
_KINDS = {1: "tf32", 2: "mixed", 3: "split"}
#: From this length on, the error of split floats is below ordinary summation error.
_SHORTEST = 32
#: Matrix units cut off what they add up: sums that are left to them whole must not be longer.
_LONGEST = 32768
_MOST_PIECES = 2**31 - 2**16
#: Packed floats are counted in 32 bits.
_MOST_BYTES = 2**33
#: A launch that packs the weights, and one that adds up parts.
_PACK_SECONDS, _SUM_SECONDS = 4e-6, 6e-6
_BANDWIDTH_SHARE = 0.825


class MatrixConvSolver(SizedVariant):
    """A result from a source and the weights, in one family of layouts."""

    prefix = "igemm-nvidia"
    version = 5
    backends = ("opencl", "cuda")
    domain = form.DOMAIN

    def __init__(self, direction: Direction, *, channels_last: bool, fixed: bool) -> None:
        """Take the variant, which gives the solver its id; ``fixed``: sizes are compiled in."""
        super().__init__(direction, channels_last=channels_last, fixed=fixed)
        if not channels_last:  # narrow types are read channels last
            self.domain = replace(self.domain, dtypes=(DataType.FLOAT32,))

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take sums that are exact enough, and sizes that the kernels can count, on Hopper."""
        if target.arch != _ARCH:
            return Rejected(Reason.ARCHITECTURE, f"is for {_ARCH}, not {target.arch}")
        if form.products(problem) > 1 and problem.reduction < _SHORTEST:
            detail = f"sums of {problem.reduction} products, fewer than {_SHORTEST}"
            return Rejected(Reason.ACCURACY, detail)
        problem = self._seen(problem)
        shape = form.geometry_of(problem)
        longest = shape.phase_taps * shape.channels
        if form.products(problem) == 1 and longest > _LONGEST:
            detail = f"sums of {longest} products, more than {_LONGEST}"
            return Rejected(Reason.ACCURACY, detail)
        if shape.taps > form.MOST_TAPS and (taps := shape.phase_taps) > form.MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"{taps} taps, more than {form.MOST_TAPS}")
        if (size := shape.too_large) is not None:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {size}")
        if (size := form.Filter(problem, shape).packed_bytes) >= _MOST_BYTES:
            return Rejected(Reason.SIZE_LIMIT, f"packed weights of {size} bytes")
        if (pieces := form.filled_bytes(problem, shape) // form.PIECE_BYTES) > _MOST_PIECES:
            return Rejected(Reason.SIZE_LIMIT, f"{pieces} pieces of the source's channels")
        return APPLICABLE

    def error_bound(self, problem: ConvProblem) -> float:
        """Data are near TF32 numbers, see cf_tf32_near in convfind_nvidia.h, weights the nearest.

        Together they lose less than 2^-10.6 + 2^-11, where rounding both loses 2 * 2^-11.
        """
        return 1.16 if problem.allow_tf32 else 1.0

    def mixes_values(self, problem: ConvProblem) -> bool:
        """Where it multiplies by zeros what a result does not read."""
        problem = self._seen(problem)
        return form.has_zero_taps(problem, form.geometry_of(problem))

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles that fit registers and local memory; parts where tiles do not fill the device."""
        problem = self._seen(problem)
        shape, splits = form.geometry_of(problem), form.products(problem) > 1
        packed, product = form.Filter(problem, shape).is_split, form.MatrixProduct(shape)
        most, units = most_parts(problem, shape, target), target.compute_units
        parts = (
            number
            for tile, rate in RATES[_kind(problem, shape)].items()
            for number in parts_filling(product.tiles(tile), units, rate.resident, most)
        )
        return SearchSpace(
            (
                *parameters(product.columns, has_lines=form.can_share_rows(problem, shape)),
                *parts_parameter(parts, most),
            ),
            constraints(splits=splits, packed=packed, size=problem.dtype.size),
            lambda config: MatrixTile.of(config).local_bytes(splits=splits, packed=packed),
            LOCAL_MEMORY,
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The measured tile, and the number of parts, that are expected to be quickest."""
        problem = self._seen(problem)
        shape = form.geometry_of(problem)
        tile, parts, _ = _best(problem, shape, target)
        config = tile.config(has_lines=form.can_share_rows(problem, shape))
        return Config(config, parts=parts) if most_parts(problem, shape, target) > 1 else config

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The index of the best tile, or of memory where that is slower."""
        problem = self._seen(problem)
        shape = form.geometry_of(problem)
        more = _PACK_SECONDS if form.Filter(problem, shape).packed_bytes else 0.0
        if filled := form.filled_bytes(problem, shape):
            more += _PACK_SECONDS + memory_seconds(2 * filled, target, _BANDWIDTH_SHARE)
        seconds = _best(problem, shape, target)[2]
        return product_index(problem, target, seconds, _BANDWIDTH_SHARE, more)

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch; before it those that bring operands to its form, then that of a split sum."""
        problem = self._seen(problem)
        shape, tile = form.geometry_of(problem), MatrixTile.of(config)
        packed, filled = form.Filter(problem, shape), form.filled_bytes(problem, shape)
        before = align(filled)
        parts = parts_of(problem, config, limit, before, packed.packed_bytes)
        program = self._program(problem, target, shape, tile, splits_sum=parts > 1)
        product = form.MatrixProduct(shape, tile.lines == 1)
        position_tiles = -(-product.rows // tile.tile_m)
        channel_tiles = -(-product.columns // tile.tile_n)
        divisors = channel_tiles, position_tiles, shape.groups, *product.counts
        launch = Grid(program, "igemm_nvidia_conv", product.tiles(tile) * parts, tile.threads)(
            *(
                Memory.WORKSPACE if filled else shape.source,
                Memory.PACKED if packed.packed_bytes else Memory.W,
                BufferArg(shape.result) if parts == 1 else BufferArg(Memory.WORKSPACE, before),
            ),
            *Epilogue.of(problem).arguments,
            *(position_tiles, packed.row, packed.tap),
            *(i64(reciprocal(number)) for number in divisors),
            *((i32(parts), i64(problem.elements(shape.result))) if parts > 1 else ()),
            *shape.arguments,
        )
        return Recipe(
            self.solver_id,
            (
                *((form.fill(problem, program, shape),) if filled else ()),
                launch,
                *((add_parts(problem, program, before, parts),) if parts > 1 else ()),
            ),
            prepare=(packed.launch(program),) if packed.packed_bytes else (),
            workspace=filled if parts == 1 else before + parts * part_bytes(problem),
            packed=packed.packed_bytes,
            config=config,
        )

    def _program(
        self,
        problem: ConvProblem,
        target: Target,
        shape: GpuGeometry,
        tile: MatrixTile,
        *,
        splits_sum: bool,
    ) -> Program:
        fused, is_last = form.MatrixProduct(shape).fused, shape.channels_last
        is_wide = is_last and not fused and form.whole(problem, shape.filters)
        macros: dict[str, DefineValue] = {
            "TILE_M": tile.tile_m,
            "TILE_N": tile.tile_n,
            "STAGES": tile.stages,
            "CHANNELS_LAST": shape.channels_last,
            "BACKWARD": shape.is_gradient,
            "DTYPE": problem.dtype.upper(),
            "PRODUCTS": form.products(problem),
            "GATHER": form.LINES if tile.lines else form.gather(problem, shape),
            "FUSED": fused,
            "SPLIT_BEFORE": form.Filter(problem, shape).is_split,
            "WIDE": is_wide and tile.tile_n > NARROW,
            **({"PARTIAL": True} if splits_sum else {}),
            **Epilogue.of(problem).defines,
        }
        limit = self._most_registers(problem, shape, tile)
        options = () if limit is None else register_limit(target, limit)
        return GPU.program("nvidia_conv", macros, self._compiled_in(shape), options=options)

    def _most_registers(
        self, problem: ConvProblem, shape: GpuGeometry, tile: MatrixTile
    ) -> int | None:
        """The limit of an item's registers, where one costs no spills."""
        splits = form.products(problem) > 1
        as_they_come = not splits or form.Filter(problem, shape).is_split
        shares_rows = tile.lines and not form.MatrixProduct(shape).fused
        if not (shares_rows and as_they_come and tile.tile_n > NARROW):
            return None
        return tile.registers(splits=splits)


def reciprocal(number: int) -> int:
    """Return a factor below 2^32 and, from bit 32 on, a shift: n * factor >> shift = n // number.

    The result is exact for n below 2^31. After Granlund and Montgomery, "Division by Invariant
    Integers using Multiplication" (1994).
    """
    shift = 31 + (number - 1).bit_length()
    return (1 << shift) // number + 1 | shift << 32


def _kind(problem: ConvProblem, shape: GpuGeometry) -> str:
    """The kind of rates that apply to a problem."""
    kind = _KINDS[form.products(problem)] if problem.dtype is DataType.FLOAT32 else "narrow"
    return f"{kind}-packed" if form.Filter(problem, shape).is_split else kind


def _best(
    problem: ConvProblem, shape: GpuGeometry, target: Target
) -> tuple[MatrixTile, int, float]:
    """The tile and the number of parts that take the fewest seconds, and these."""
    product, units = form.MatrixProduct(shape), target.compute_units
    efficiency, steps = _EFFICIENCY[form.gather(problem, shape)], sum_length(problem, shape)
    shares, most = form.can_share_rows(problem, shape), most_parts(problem, shape, target)

    def needed(tile: MatrixTile, rate: TileRate, parts: int) -> float:
        tiles = form.MatrixProduct(shape, tile.lines == 1).tiles(tile)
        needed = rate.seconds(tile, steps / parts, tiles * parts, units) / efficiency
        moved = moved_bytes(problem, parts)
        if not moved:
            return needed
        return needed + _SUM_SECONDS + memory_seconds(moved, target, _BANDWIDTH_SHARE)

    return min(
        (
            (tile, parts, needed(tile, rate, parts))
            for tile, rate in RATES[_kind(problem, shape)].items()
            if (shares or not tile.lines) and (product.columns <= NARROW or tile.tile_n > NARROW)
            for parts in parts_filling(product.tiles(tile), units, rate.resident, most)
        ),
        key=lambda choice: choice[2],
    )
