"""`Folding`: the weight gradient of few channels as one of whole pieces of 16 bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from convfind.kit.blocks import Axes, Epilogue, Grid
from convfind.problem import ConvProblem
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Launch, Memory, align
from convfind_solvers_igemm.gpu.geometry import GpuGeometry, gpu_geometry
from convfind_solvers_igemm.programs import GPU

_PIECE_BYTES = 16
_FOLD_GROUP = 256
#: ELEMENTS and SHARES of nvidia_fold.cl.
_ELEMENTS, _SHARES = 32, 8


@dataclass(frozen=True, slots=True)
class Folding:
    """The convolution that is computed, and how x and the weights become its operands.

    Where channels are not whole pieces, strides are folded into them, and zeros put behind.
    """

    problem: ConvProblem
    plain: GpuGeometry
    shape: GpuGeometry
    kept: Axes  # places of x that a position has along each axis

    @classmethod
    def of(cls, problem: ConvProblem) -> Folding:
        """Return the folding of a problem that is channels last, which may change nothing."""
        plain = gpu_geometry(problem)
        piece = _PIECE_BYTES // problem.dtype.size
        if plain.channels % piece == 0 or plain.groups > 1:
            return cls(problem, plain, plain, (1, 1, 1))
        # Dilated taps are further apart than a position is wide.
        steps = tuple(s if d == 1 else 1 for s, d in _zip(plain.stride, plain.dilation))
        kept = tuple(map(min, steps, plain.window))
        channels = math.prod(kept) * plain.channels
        shape = replace(
            plain,
            channels=-(-channels // piece) * piece,
            size=tuple(
                -(-(size + padding % step) // step)
                for size, padding, step in _zip(plain.size, plain.padding, steps)
            ),
            window=tuple(-(-taps // step) for taps, step in _zip(plain.window, steps)),
            stride=tuple(stride // step for stride, step in _zip(plain.stride, steps)),
            padding=tuple(padding // step for padding, step in _zip(plain.padding, steps)),
        )
        return cls(problem, plain, shape, kept)

    @property
    def steps(self) -> Axes:
        """Strides that are folded."""
        return tuple(old // new for old, new in _zip(self.plain.stride, self.shape.stride))

    @property
    def folds(self) -> bool:
        """True if x is copied into another form."""
        return self.shape is not self.plain

    @property
    def pieces(self) -> int:
        """Pieces of the folded x; 0 where x is read as it is."""
        if not self.folds:
            return 0
        positions = self.shape.images * math.prod(self.shape.size)
        size = self.problem.dtype.size
        return positions * self.shape.channels * size // _PIECE_BYTES

    @property
    def folded_bytes(self) -> int:
        """Bytes of workspace that the folded x takes."""
        return align(self.pieces * _PIECE_BYTES)

    @property
    def part_elements(self) -> int:
        """Elements of one part of the sum."""
        shape = self.shape
        return shape.groups * shape.filters * shape.taps * shape.channels

    @property
    def program(self) -> Program:
        """The program of both launches."""
        return GPU.program("nvidia_fold", {"DTYPE": self.problem.dtype.upper()})

    def launch(self) -> Launch:
        """The launch that folds x into the start of the workspace."""
        before = tuple(padding % step for padding, step in _zip(self.plain.padding, self.steps))
        in_position = self.pieces // self.shape.images // math.prod(self.shape.size)
        axes = (self.plain.size, self.shape.size, self.steps, self.kept, before)
        return Grid(self.program, "igemm_nvidia_fold", -(-self.pieces // _FOLD_GROUP), _FOLD_GROUP)(
            *(Memory.X, Memory.WORKSPACE, self.pieces, in_position, self.plain.channels),
            *chain(*axes),
        )

    def sum(self, parts: int) -> Launch:
        """The launch that adds up the parts behind the folded x."""
        problem, elements = self.problem, self.problem.elements("w")
        axes = (self.plain.window, self.shape.window, self.steps, self.kept)
        work_groups = -(-elements // _ELEMENTS)
        return Grid(self.program, "igemm_nvidia_sum", work_groups, _ELEMENTS * _SHARES)(
            *(BufferArg(Memory.WORKSPACE, self.folded_bytes), Memory.W),
            *Epilogue.of(problem).arguments,
            *(self.part_elements, parts, elements),
            *(self.plain.channels, self.shape.channels),
            *chain(*axes),
        )


def _zip(*axes: Axes) -> Iterator[tuple[int, ...]]:
    return zip(*axes, strict=True)
