"""Implicit GEMM on NVIDIA's matrix units (Hopper's wgmma): forward and the data gradient."""

from __future__ import annotations

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config
from convfind.defines import DefineValue, make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.search_space import SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, f32, i32
from convfind.solver import TunableSolver
from convfind.target import Target
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_igemm.gpu_geometry import GpuGeometry, gpu_geometry
from convfind_solvers_igemm.nvidia_tiles import (
    LOCAL_MEMORY,
    PARAMETERS,
    RATES,
    MatrixTile,
    constraints,
    seconds,
)

PACKAGE = "convfind_solvers_igemm"
_ARCH = "sm_90"
_SIZES = {DataType.FLOAT32: 4, DataType.FLOAT16: 2, DataType.BFLOAT16: 2}
#: Values of GATHER in nvidia_gather.h.
_PIECES, _EACH, _FLAT = range(3)
#: What gathering leaves of the measured speed.
_EFFICIENCY = {_PIECES: 1.0, _EACH: 0.65, _FLAT: 0.68}
_PIECE_BYTES = 16
_ROW_BYTES = 128
#: Rates by products.
_KINDS = {1: "tf32", 2: "mixed", 3: "split"}
#: Taps that fit the mask.
_MOST_TAPS = 63
#: Channels behind the last one, as a share, from which on one axis of channels and taps is quicker.
_MOST_WASTE = 0.25
#: What split floats lose of a product is within the rounding of plain sums from these lengths on:
#: with small products in TF32, and in bfloat16.
_SHORTEST = 32
_SHORTEST_MIXED = 256
#: Matrix units cut off what they add up: sums that are left to them whole must not be longer.
_LONGEST = 32768
_PACK_GROUP = 256
#: A launch that packs the weights.
_PACK_SECONDS = 4e-6
#: Of one unit of an H200: FLOP/s at the peak of plain arithmetic, and bytes/s of memory.
_UNIT_PEAK = 507e9
_UNIT_BANDWIDTH = 30e9


class MatrixConvSolver(TunableSolver):
    """A result from a source and the weights, in one family of layouts."""

    algorithm = Algorithm.IMPLICIT_GEMM
    backends = ("opencl",)

    def __init__(self, direction: Direction, *, channels_last: bool, fixed: bool) -> None:
        """Take the variant, which gives the solver its id; ``fixed``: sizes are compiled in."""
        self.direction = direction
        self.channels_last = channels_last
        self.fixed = fixed
        self.is_dynamic = not fixed
        layout = "nhwc" if channels_last else "nchw"
        self.solver_id = f"igemm-nvidia-{layout}-{direction.short}" + ("-fixed" if fixed else "")

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take packed tensors in the solver's layout, on Hopper GPUs with inline PTX."""
        if not target.has("nv-ptx"):
            return Rejected(Reason.FEATURE, "needs inline PTX")
        if target.arch != _ARCH:
            return Rejected(Reason.ARCHITECTURE, f"is for {_ARCH}, not {target.arch}")
        if problem.direction is not self.direction:
            return Rejected(Reason.DIRECTION, f"{problem.direction} is not {self.direction}")
        if problem.dtype not in _SIZES:
            return Rejected(Reason.DTYPE, f"not {problem.dtype}")
        if not problem.layouts_agree or problem.x_layout.channels_last is not self.channels_last:
            order = "last" if self.channels_last else "first"
            return Rejected(Reason.LAYOUT, f"x, w and y must all be channels {order}")
        if not problem.is_packed:
            return Rejected(Reason.NON_PACKED)
        if _products(problem) > 1 and problem.reduction < _SHORTEST:
            detail = f"sums of {problem.reduction} products, fewer than {_SHORTEST}"
            return Rejected(Reason.ACCURACY, detail)
        if _products(problem) == 1 and problem.reduction > _LONGEST:
            detail = f"sums of {problem.reduction} products, more than {_LONGEST}"
            return Rejected(Reason.ACCURACY, detail)
        shape = gpu_geometry(problem)
        if shape.taps > _MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"{shape.taps} taps, more than {_MOST_TAPS}")
        if problem.dtype is not DataType.FLOAT32 and _gather(problem, shape) != _PIECES:
            return Rejected(
                Reason.CHANNELS,
                f"{problem.dtype} is read eight channels at a time, channels last",
            )
        if (size := shape.too_large) is not None:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {size}")
        return APPLICABLE

    def error_bound(self, problem: ConvProblem) -> float:
        """TF32 inputs are cut off, not rounded: twice the error."""
        return 2.0 if problem.allow_tf32 and problem.dtype is DataType.FLOAT32 else 1.0

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the weights in the kernel's form, where they do not have it already."""
        return _Filter(problem, gpu_geometry(problem)).packed_bytes

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles that fit registers and local memory."""
        products = _products(problem)
        return SearchSpace(
            PARAMETERS,
            constraints(products),
            lambda config: MatrixTile.of(config).local_bytes(products),
            LOCAL_MEMORY,
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The measured tile that is expected to be quickest."""
        return Config(_best(problem, gpu_geometry(problem), target)[0].values)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """What the best tile is expected to reach, or memory where that is slower."""
        shape = gpu_geometry(problem)
        arithmetic = _best(problem, shape, target)[1]
        memory = problem.traffic / (_UNIT_BANDWIDTH * target.compute_units)
        needed = max(arithmetic + memory / 4, memory)
        if _Filter(problem, shape).packed_bytes:
            needed += _PACK_SECONDS
        return max(problem.flops / (_UNIT_PEAK * target.compute_units) / needed, 0.02)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch, and before it one that packs the weights where they need it."""
        chosen = config or self.default_config(problem, target)
        shape, tile = gpu_geometry(problem), MatrixTile.of(chosen)
        packed = _Filter(problem, shape)
        program = self._program(problem, shape, tile)
        position_tiles = -(-shape.phase_positions // tile.tile_m)
        launch = Launch(
            KernelSpec(program, "igemm_nvidia_conv"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.PACKED if packed.packed_bytes else Memory.W),
                BufferArg(shape.result),
                f32(problem.alpha),
                f32(problem.beta),
                i32(position_tiles),
                i32(packed.row),
                i32(packed.tap),
                *shape.arguments,
            ),
            (_count(shape, tile) * tile.threads,),
            (tile.threads,),
        )
        return ConvSolution(
            self.solver_id,
            (launch,),
            prepare=(packed.launch(program, shape),) if packed.packed_bytes else (),
            packed=packed.packed_bytes,
            config=chosen,
        )

    def _program(self, problem: ConvProblem, shape: GpuGeometry, tile: MatrixTile) -> Program:
        macros: dict[str, DefineValue] = {
            **{name.upper(): value for name, value in tile.values.items()},
            "CHANNELS_LAST": shape.channels_last,
            "BACKWARD": shape.by_phases,
            "DTYPE": problem.dtype.upper(),
            "PRODUCTS": _products(problem),
            "GATHER": _gather(problem, shape),
            "PAIRS": shape.channels_last and shape.result_channels % 2 == 0,
        }
        if self.fixed:
            macros |= {"FIXED": True, **shape.sizes}
        return Program(
            KernelSource(PACKAGE, "kernels/nvidia_conv.cl"),
            KernelLanguage.OPENCL_C,
            make_defines(macros),
        )


class _Filter:
    """The weights as the kernel reads them: sizes in elements."""

    def __init__(self, problem: ConvProblem, shape: GpuGeometry) -> None:
        piece = _PIECE_BYTES // _SIZES[problem.dtype]
        gather = _gather(problem, shape)
        self.rows = shape.groups * shape.result_channels
        if gather == _FLAT:
            self.tap = shape.source_channels
            self.row = _rounded(shape.taps * self.tap, _ROW_BYTES // _SIZES[problem.dtype])
        else:
            self.tap = _rounded(shape.source_channels, piece)
            self.row = shape.taps * self.tap
        has_form = gather == _PIECES and not shape.by_phases
        self.packed_bytes = 0 if has_form else self.rows * self.row * _SIZES[problem.dtype]

    def launch(self, program: Program, shape: GpuGeometry) -> Launch:
        """The launch that packs."""
        size = self.rows * self.row
        return Launch(
            KernelSpec(program, "igemm_nvidia_pack"),
            (
                BufferArg(Memory.W),
                BufferArg(Memory.PACKED),
                i32(self.rows),
                i32(self.row),
                i32(self.tap),
                i32(shape.result_channels),
                i32(shape.source_channels),
                i32(shape.taps),
            ),
            (_rounded(size, _PACK_GROUP),),
            (_PACK_GROUP,),
        )


def _products(problem: ConvProblem) -> int:
    """What a product costs: PRODUCTS of convfind_nvidia_tile.h."""
    if problem.dtype is not DataType.FLOAT32 or problem.allow_tf32:
        return 1
    return 2 if problem.reduction >= _SHORTEST_MIXED else 3


def _gather(problem: ConvProblem, shape: GpuGeometry) -> int:
    size, channels = _SIZES[problem.dtype], shape.source_channels
    if shape.channels_last and channels * size % _PIECE_BYTES == 0:
        return _PIECES
    waste = _rounded(channels, _ROW_BYTES // size) - channels
    return _FLAT if shape.phases == 1 and waste > _MOST_WASTE * channels else _EACH


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _count(shape: GpuGeometry, tile: MatrixTile) -> int:
    tiles = tile.count(shape.phase_positions, shape.result_channels)
    return tiles * shape.groups * shape.phases


def _best(problem: ConvProblem, shape: GpuGeometry, target: Target) -> tuple[MatrixTile, float]:
    """The tile that takes the fewest seconds, and these."""
    per_row = _ROW_BYTES // _SIZES[problem.dtype]
    taps, gather = shape.taps / shape.phases, _gather(problem, shape)
    if gather == _FLAT:
        steps = float(_rounded(shape.source_channels * shape.taps, per_row))
    else:
        steps = _rounded(shape.source_channels, per_row) * taps
    kind = _KINDS[_products(problem)] if problem.dtype is DataType.FLOAT32 else "narrow"
    units = target.compute_units
    return min(
        (
            (tile, seconds(tile, rate, _count(shape, tile), steps, units) / _EFFICIENCY[gather])
            for tile, rate in RATES[kind].items()
        ),
        key=lambda choice: choice[1],
    )
