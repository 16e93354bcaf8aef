"""Implicit GEMM on NVIDIA's matrix units (Hopper's wgmma): forward and the data gradient."""

from __future__ import annotations

import math
from dataclasses import replace

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config
from convfind.defines import DefineValue, make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.search_space import SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, f32, i32, i64
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
_PIECES, _EACH, _FLAT, _FLAT_PIECES = range(4)
#: What gathering leaves of the measured speed.
_EFFICIENCY = {_PIECES: 1.0, _EACH: 0.65, _FLAT: 0.68, _FLAT_PIECES: 0.9}
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
#: Elements that an item of the launch that packs splits.
_TOGETHER = 8
_MOST_PIECES = 2**31 - 2**16
#: Packed floats are counted in 32 bits.
_MOST_BYTES = 2**33
#: A launch that packs the weights.
_PACK_SECONDS = 4e-6
#: Of one unit of an H200: FLOP/s at the peak of plain arithmetic, and bytes/s of memory.
_UNIT_PEAK = 507e9
_UNIT_BANDWIDTH = 30e9


class MatrixConvSolver(TunableSolver):
    """A result from a source and the weights, in one family of layouts."""

    version = 2
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
        shape = _geometry(problem)
        if shape.taps > _MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"{shape.taps} taps, more than {_MOST_TAPS}")
        if problem.dtype is not DataType.FLOAT32 and not self.channels_last:
            return Rejected(Reason.LAYOUT, f"{problem.dtype} is read channels last")
        if (size := shape.too_large) is not None:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {size}")
        if (size := _Filter(problem, shape).packed_bytes) >= _MOST_BYTES:
            return Rejected(Reason.SIZE_LIMIT, f"packed weights of {size} bytes")
        if (pieces := _filled_bytes(problem, shape) // _PIECE_BYTES) > _MOST_PIECES:
            return Rejected(Reason.SIZE_LIMIT, f"{pieces} pieces of the source's channels")
        return APPLICABLE

    def error_bound(self, problem: ConvProblem) -> float:
        """TF32 inputs are cut off, not rounded: twice the error."""
        return 2.0 if problem.allow_tf32 and problem.dtype is DataType.FLOAT32 else 1.0

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the source and the weights in the kernel's form, where they need another one."""
        return self.solution(problem, target, workspace_limit=limit).total_workspace

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles that fit registers and local memory."""
        splits = _products(problem) > 1
        packed = _Filter(problem, _geometry(problem)).is_split
        return SearchSpace(
            PARAMETERS,
            constraints(splits=splits, packed=packed),
            lambda config: MatrixTile.of(config).local_bytes(splits=splits, packed=packed),
            LOCAL_MEMORY,
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The measured tile that is expected to be quickest."""
        return Config(_best(problem, _geometry(problem), target)[0].values)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """What the best tile is expected to reach, or memory where that is slower."""
        shape = _geometry(problem)
        arithmetic = _best(problem, shape, target)[1]
        memory = problem.traffic / (_UNIT_BANDWIDTH * target.compute_units)
        needed = max(arithmetic + memory / 4, memory)
        if _Filter(problem, shape).packed_bytes:
            needed += _PACK_SECONDS
        filled = _filled_bytes(problem, shape)
        if filled:
            needed += _PACK_SECONDS + 2 * filled / (_UNIT_BANDWIDTH * target.compute_units)
        return max(problem.flops / (_UNIT_PEAK * target.compute_units) / needed, 0.02)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch, and before it those that bring operands to the kernel's form."""
        chosen = config or self.default_config(problem, target)
        shape, tile = _geometry(problem), MatrixTile.of(chosen)
        packed, filled = _Filter(problem, shape), _filled_bytes(problem, shape)
        program = self._program(problem, shape, tile)
        position_tiles = -(-shape.phase_positions // tile.tile_m)
        channel_tiles = -(-shape.result_channels // tile.tile_n)
        divisors = channel_tiles, position_tiles, shape.groups, *shape.result_size
        launch = Launch(
            KernelSpec(program, "igemm_nvidia_conv"),
            (
                BufferArg(Memory.WORKSPACE if filled else shape.source),
                BufferArg(Memory.PACKED if packed.packed_bytes else Memory.W),
                BufferArg(shape.result),
                f32(problem.alpha),
                f32(problem.beta),
                i32(position_tiles),
                i32(packed.row),
                i32(packed.tap),
                *(i64(reciprocal(number)) for number in divisors),
                *shape.arguments,
            ),
            (_count(shape, tile) * tile.threads,),
            (tile.threads,),
        )
        return ConvSolution(
            self.solver_id,
            (_fill(problem, program, shape), launch) if filled else (launch,),
            prepare=(packed.launch(program),) if packed.packed_bytes else (),
            workspace=filled,
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
            "SPLIT_BEFORE": _Filter(problem, shape).is_split,
            "WIDE": shape.channels_last and _whole(problem, shape.result_channels),
        }
        if self.fixed:
            macros |= {"FIXED": True, **shape.sizes}
        return Program(
            KernelSource(PACKAGE, "kernels/nvidia_conv.cl"),
            KernelLanguage.OPENCL_C,
            make_defines(macros),
        )


def reciprocal(number: int) -> int:
    """Return a factor below 2^32 and, from bit 32 on, a shift: n * factor >> shift = n // number.

    That is exact for n below 2^31. After Granlund and Montgomery, "Division by Invariant Integers
    using Multiplication" (1994).
    """
    shift = 31 + (number - 1).bit_length()
    return (1 << shift) // number + 1 | shift << 32


class _Filter:
    """The weights as the kernel reads them: sizes in elements."""

    def __init__(self, problem: ConvProblem, shape: GpuGeometry) -> None:
        self._problem, self._plain = problem, gpu_geometry(problem)
        self.rows = shape.groups * shape.result_channels
        gather, step = _gather(problem, shape), _ROW_BYTES // _SIZES[problem.dtype]
        has_pieces = shape.channels_last and _whole(problem, self._plain.source_channels)
        has_form = has_pieces and not shape.by_phases
        self.is_split = _products(problem) > 1 and not has_form
        piece = step if self.is_split else _PIECE_BYTES // _SIZES[problem.dtype]
        if gather in (_FLAT, _FLAT_PIECES):
            unit = piece if gather == _FLAT_PIECES else step
            self.tap = shape.source_channels
            self.row = _rounded(shape.taps * self.tap, unit)
        else:
            self.tap = _rounded(shape.source_channels, piece)
            self.row = shape.taps * self.tap
        size = self.rows * self.row * _SIZES[problem.dtype]
        self.packed_bytes = 0 if has_form else 2 * size if self.is_split else size

    def launch(self, program: Program) -> Launch:
        """The launch that packs."""
        size = self.rows * self.row // (_TOGETHER if self.is_split else 1)
        return Launch(
            KernelSpec(program, "igemm_nvidia_pack"),
            (
                BufferArg(Memory.W),
                BufferArg(Memory.PACKED),
                i32(self.rows),
                i32(self.row),
                i32(self.tap),
                i32(self._plain.result_channels),
                i32(self._plain.source_channels),
                i32(self._plain.taps),
                i32(self._plain.window[2]),
                i32(_folded(self._problem, self._plain)),
            ),
            (_rounded(size, _PACK_GROUP),),
            (_PACK_GROUP,),
        )


def _folded(problem: ConvProblem, plain: GpuGeometry) -> int:
    """Positions along w whose channels are one position's of the convolution that is computed.

    Where channels are not whole pieces, a stride that is folded into them leaves fewer pieces.
    """
    stride, taps = plain.stride[2], plain.window[2]
    can = problem.direction is Direction.FORWARD and plain.groups == 1 and plain.dilation[2] == 1
    if not can or _has_pieces(problem, plain):
        return 1
    channels, piece = plain.source_channels, _PIECE_BYTES // _SIZES[problem.dtype]
    pieces = -(-taps // stride) * -(-stride * channels // piece)
    return stride if pieces < taps * -(-channels // piece) else 1


def _has_pieces(problem: ConvProblem, plain: GpuGeometry) -> bool:
    """Whether the source is read as it is: narrow types need whole pieces of channels."""
    return problem.dtype is DataType.FLOAT32 or _whole(problem, plain.source_channels)


def _geometry(problem: ConvProblem) -> GpuGeometry:
    """The convolution that is computed."""
    plain = gpu_geometry(problem)
    if problem.dtype not in _SIZES or _has_pieces(problem, plain):
        return plain
    folded = _folded(problem, plain)
    padding, taps = plain.padding[2], plain.window[2]
    width = -(-(plain.source_size[2] + padding % folded) // folded)
    return replace(
        plain,
        source_channels=_rounded(
            folded * plain.source_channels, _PIECE_BYTES // _SIZES[problem.dtype]
        ),
        source_size=(*plain.source_size[:2], width),
        window=(*plain.window[:2], -(-taps // folded)),
        stride=(*plain.stride[:2], plain.stride[2] // folded),
        padding=(*plain.padding[:2], padding // folded),
    )


def _filled_bytes(problem: ConvProblem, shape: GpuGeometry) -> int:
    """Bytes of the source with whole pieces of channels; 0 where it is read as it is."""
    if _has_pieces(problem, gpu_geometry(problem)):
        return 0
    positions = shape.images * math.prod(shape.source_size) * shape.groups
    return positions * shape.source_channels * _SIZES[problem.dtype]


def _fill(problem: ConvProblem, program: Program, shape: GpuGeometry) -> Launch:
    """The launch that fills the source's channels up."""
    plain = gpu_geometry(problem)
    folded = _folded(problem, plain)
    pieces = _filled_bytes(problem, shape) // _PIECE_BYTES
    return Launch(
        KernelSpec(program, "igemm_nvidia_fill"),
        (
            BufferArg(shape.source),
            BufferArg(Memory.WORKSPACE),
            i32(pieces),
            i32(folded * plain.source_channels),
            i32(shape.source_size[2] * plain.groups),
            i32(plain.source_size[2] * plain.groups * plain.source_channels),
            i32(plain.padding[2] % folded * plain.source_channels),
        ),
        (_rounded(pieces, _PACK_GROUP),),
        (_PACK_GROUP,),
    )


def _products(problem: ConvProblem) -> int:
    """What a product costs: PRODUCTS of convfind_nvidia_tile.h."""
    if problem.dtype is not DataType.FLOAT32 or problem.allow_tf32:
        return 1
    return 2 if problem.reduction >= _SHORTEST_MIXED else 3


def _whole(problem: ConvProblem, channels: int) -> bool:
    """Whether channels are whole pieces."""
    return channels * _SIZES[problem.dtype] % _PIECE_BYTES == 0


def _gather(problem: ConvProblem, shape: GpuGeometry) -> int:
    channels = shape.source_channels
    waste = _rounded(channels, _ROW_BYTES // _SIZES[problem.dtype]) - channels
    is_flat = shape.phases == 1 and waste > _MOST_WASTE * channels
    if shape.channels_last and _whole(problem, channels):
        return _FLAT_PIECES if is_flat and shape.taps > 1 else _PIECES
    return _FLAT if is_flat else _EACH


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _count(shape: GpuGeometry, tile: MatrixTile) -> int:
    tiles = tile.count(shape.phase_positions, shape.result_channels)
    return tiles * shape.groups * shape.phases


def _best(problem: ConvProblem, shape: GpuGeometry, target: Target) -> tuple[MatrixTile, float]:
    """The tile that takes the fewest seconds, and these."""
    per_row = _ROW_BYTES // _SIZES[problem.dtype]
    taps, gather = shape.taps / shape.phases, _gather(problem, shape)
    if gather in (_FLAT, _FLAT_PIECES):
        steps = float(_rounded(shape.source_channels * shape.taps, per_row))
    else:
        steps = _rounded(shape.source_channels, per_row) * taps
    kind = _KINDS[_products(problem)] if problem.dtype is DataType.FLOAT32 else "narrow"
    if _Filter(problem, shape).is_split:
        kind += "-packed"
    units = target.compute_units
    return min(
        (
            (tile, seconds(tile, rate, _count(shape, tile), steps, units) / _EFFICIENCY[gather])
            for tile, rate in RATES[kind].items()
        ),
        key=lambda choice: choice[1],
    )
