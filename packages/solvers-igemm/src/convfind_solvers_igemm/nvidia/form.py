"""The operands of the kernel for NVIDIA's tensor cores: the forms of a problem's operands."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from convfind.kit.blocks import Axes, Grid, ProductTile, round_up
from convfind.problem import PACKED_TRAITS, ConvProblem
from convfind.solver import Domain
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch, Memory
from convfind.types import DataType, Direction
from convfind_solvers_igemm.gpu.geometry import GpuGeometry, gpu_geometry
from convfind_solvers_igemm.nvidia.tiles import EXTRA_ROWS

#: The domain of solvers with kernels in inline PTX, before they are of a direction and layout.
DOMAIN = Domain(
    dtypes=(DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16),
    traits=PACKED_TRAITS,
    features=frozenset({"nv-ptx"}),
)
#: Values of GATHER in nvidia_gather.h.
PIECES, EACH, FLAT, FLAT_PIECES, LINES = range(5)
PIECE_BYTES = 16
ROW_BYTES = 128
#: Taps that fit the mask.
MOST_TAPS = 63
#: Channels behind the last one, as a share, from which on one axis of channels and taps is quicker.
_MOST_WASTE = 0.25
_SHORTEST_MIXED = 256
_PACK_GROUP = 256
#: Elements that an item of the launch that packs splits; otherwise it moves a piece.
_TOGETHER = 8
#: Rows and columns of the tiles that a work-group of it turns: TILE of nvidia_pack.cl.
_TURNED_TILE = 64
#: Columns of all phases of the data gradient up to which these are computed at once.
_MOST_FUSED = 64
#: Rows are counted in 32 bits.
_MOST_ROWS = 2**31 - 2**16
#: Taps of a line from which on it pays that they share rows.
_FEWEST_SHARING = 3


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """Sizes of what the kernel multiplies, of each of ``parts`` independent products."""

    shape: GpuGeometry
    lines: bool = False  # taps share rows: these are a line's places that are read, not its results

    @property
    def fused(self) -> bool:
        """True if all phases of the data gradient are columns, each with the taps of any.

        The source is then read once for each of these taps, for all phases.
        """
        phases = self.shape.phases
        if phases == 1:
            return False
        taps = self.shape.fused_taps
        if taps is None or taps > MOST_TAPS:
            return False
        return self.shape.filters * phases <= _MOST_FUSED

    @property
    def columns(self) -> int:
        """Channels of the result, with phases."""
        return self.shape.filters * (self.shape.phases if self.fused else 1)

    @property
    def parts(self) -> int:
        """Groups, with phases."""
        return self.shape.groups * (1 if self.fused else self.shape.phases)

    @property
    def taps(self) -> int:
        """Places of a row of the filter: those of the window, or of any phase."""
        return (self.shape.fused_taps or 1) if self.fused else self.shape.taps

    @property
    def counts(self) -> Axes:
        """Rows of an image along each axis."""
        d, h, w = self.shape.fused_counts if self.fused else self.shape.phase_counts
        return d, h, line_size(self.shape) if self.lines else w

    @property
    def rows(self) -> int:
        """Rows of a part, at most."""
        return self.shape.images * math.prod(self.counts)

    def tiles(self, tile: ProductTile) -> int:
        """Work-groups."""
        return tile.count(self.rows, self.columns) * self.parts


def line_size(shape: GpuGeometry) -> int:
    """Rows of a line where its taps share them: line_of() in nvidia_gather.h."""
    more, stride, padding = _reach(shape), shape.stride[2], shape.padding[2]
    if shape.is_gradient:
        count, padding = shape.fused_counts[2], padding - shape.fused_leads[2]
        first = (stride - 1 + padding) // stride - more
    else:
        count, first = shape.out[2], -padding
    outside = min(max(-first, 0), max(first + count + more - shape.size[2], 0))
    return count + more - min(outside, more)


def _line_taps(shape: GpuGeometry) -> int:
    """Taps of a line that a column may have."""
    return shape.fused_windows[2] if shape.is_gradient else shape.window[2]


def _reach(shape: GpuGeometry) -> int:
    """From a result's first place in a line of the source to the last one."""
    return (_line_taps(shape) - 1) * shape.dilation[2]


def can_share_rows(problem: ConvProblem, shape: GpuGeometry) -> bool:
    """Return whether the taps of a line may read the same rows."""
    return (
        gather(problem, shape) == PIECES
        and (MatrixProduct(shape).fused if shape.phases > 1 else max(shape.stride) == 1)
        and _line_taps(shape) >= _FEWEST_SHARING
        and _reach(shape) <= EXTRA_ROWS
        and MatrixProduct(shape, lines=True).rows <= _MOST_ROWS
    )


class Filter:
    """The weights as the kernel reads them: sizes in elements."""

    def __init__(self, problem: ConvProblem, shape: GpuGeometry, *, by_maps: bool = False) -> None:
        """Lay them out; ``by_maps``: they are fetched by maps of tensors, which round to TF32."""
        self._problem, self._plain = problem, gpu_geometry(problem)
        product = MatrixProduct(shape)
        self._shape, self._fused = shape, product.fused
        self.rows = shape.groups * product.columns
        form = PIECES if by_maps else gather(problem, shape)
        step = ROW_BYTES // problem.dtype.size
        self._is_turned = shape.is_gradient and not (self._fused or form in (FLAT, FLAT_PIECES))
        has_pieces = shape.channels_last and whole(problem, self._plain.channels)
        # TF32 needs rounding, and a launch for it: matrix units cut off, which adds up over layers.
        rounds = problem.allow_tf32 and not by_maps
        has_form = has_pieces and not shape.is_gradient and not rounds
        self.is_split = products(problem) > 1 and not has_form
        piece = step if self.is_split else PIECE_BYTES // problem.dtype.size
        if form in (FLAT, FLAT_PIECES):
            unit = piece if form == FLAT_PIECES else step
            self.tap = shape.channels
            self.row = round_up(shape.taps * self.tap, unit)
        else:
            self.tap = round_up(shape.channels, piece)
            self.row = product.taps * self.tap
        size = self.rows * self.row * problem.dtype.size
        self.packed_bytes = 0 if has_form else 2 * size if self.is_split else size

    def launch(self, program: Program) -> Launch:
        """The launch that packs."""
        plain = self._plain
        if self._is_turned:
            columns, across = plain.filters * plain.taps, -(-self.tap // _TURNED_TILE)
            size = plain.groups * -(-columns // _TURNED_TILE) * across * _PACK_GROUP
        else:
            piece = PIECE_BYTES // self._problem.dtype.size
            size = self.rows * self.row // (_TOGETHER if self.is_split else piece)
        return Grid(program, "igemm_nvidia_pack", -(-size // _PACK_GROUP), _PACK_GROUP)(
            *(
                Memory.W,
                Memory.PACKED,
                self.rows,
                self.row,
                self.tap,
                plain.filters,
                plain.channels,
                plain.taps,
                plain.window[2],
                _folded(self._problem, plain),
            ),
            *(self._shape.arguments if self._fused else ()),
        )


def _folded(problem: ConvProblem, plain: GpuGeometry) -> int:
    """Positions along w whose channels are one position's of the convolution that is computed.

    Where channels are not whole pieces, a stride that is folded into them leaves fewer pieces.
    """
    stride, taps = plain.stride[2], plain.window[2]
    can = problem.direction is Direction.FORWARD and plain.groups == 1 and plain.dilation[2] == 1
    if not can or _has_pieces(problem, plain):
        return 1
    channels, piece = plain.channels, PIECE_BYTES // problem.dtype.size
    pieces = -(-taps // stride) * -(-stride * channels // piece)
    return stride if pieces < taps * -(-channels // piece) else 1


def _has_pieces(problem: ConvProblem, plain: GpuGeometry) -> bool:
    """Return whether the source is read as it is: narrow types need whole pieces of channels."""
    return problem.dtype is DataType.FLOAT32 or whole(problem, plain.channels)


@lru_cache(maxsize=64)
def geometry_of(problem: ConvProblem) -> GpuGeometry:
    """The convolution that is computed."""
    plain = gpu_geometry(problem)
    if problem.dtype not in DOMAIN.dtypes or _has_pieces(problem, plain):
        return plain
    folded = _folded(problem, plain)
    padding, taps = plain.padding[2], plain.window[2]
    width = -(-(plain.size[2] + padding % folded) // folded)
    return replace(
        plain,
        channels=round_up(folded * plain.channels, PIECE_BYTES // problem.dtype.size),
        size=(*plain.size[:2], width),
        window=(*plain.window[:2], -(-taps // folded)),
        stride=(*plain.stride[:2], plain.stride[2] // folded),
        padding=(*plain.padding[:2], padding // folded),
    )


def filled_bytes(problem: ConvProblem, shape: GpuGeometry) -> int:
    """Bytes of the source with whole pieces of channels; 0 where it is read as it is."""
    if _has_pieces(problem, gpu_geometry(problem)):
        return 0
    positions = shape.images * math.prod(shape.size) * shape.groups
    return positions * shape.channels * problem.dtype.size


def fill(problem: ConvProblem, program: Program, shape: GpuGeometry) -> Launch:
    """The launch that fills the source's channels up."""
    plain = gpu_geometry(problem)
    folded = _folded(problem, plain)
    pieces = filled_bytes(problem, shape) // PIECE_BYTES
    return Grid(program, "igemm_nvidia_fill", -(-pieces // _PACK_GROUP), _PACK_GROUP)(
        *(
            shape.source,
            Memory.WORKSPACE,
            pieces,
            folded * plain.channels,
            shape.size[2] * plain.groups,
            plain.size[2] * plain.groups * plain.channels,
            plain.padding[2] % folded * plain.channels,
        )
    )


def has_zero_taps(problem: ConvProblem, shape: GpuGeometry) -> bool:
    """Return whether zeros stand in rows of the filter where the source has data that are not read.

    They stand for taps that a phase lacks and another one has, or fill up a folded stride.
    """
    product = MatrixProduct(shape)
    if product.fused and product.taps * shape.phases > shape.taps:
        return True
    plain = gpu_geometry(problem)
    return plain.window[2] % _folded(problem, plain) > 0


def products(problem: ConvProblem) -> int:
    """The cost of a product: PRODUCTS of convfind_nvidia_tile.h."""
    if problem.dtype is not DataType.FLOAT32 or problem.allow_tf32:
        return 1
    return 2 if problem.reduction >= _SHORTEST_MIXED else 3


def whole(problem: ConvProblem, channels: int) -> bool:
    """Return whether channels are whole pieces."""
    return channels * problem.dtype.size % PIECE_BYTES == 0


def gather(problem: ConvProblem, shape: GpuGeometry) -> int:
    """How tiles travel to local memory: GATHER of nvidia_gather.h."""
    channels = shape.channels
    waste = round_up(channels, ROW_BYTES // problem.dtype.size) - channels
    is_flat = shape.phases == 1 and waste > _MOST_WASTE * channels
    if shape.channels_last and whole(problem, channels):
        return FLAT_PIECES if is_flat and shape.taps > 1 else PIECES
    return FLAT if is_flat else EACH
