"""`Gemm`: a batched matrix product, and the product for a chunk of a convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from convfind.kit.epilogue import NO_EPILOGUE, Epilogue
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import Rejected
from convfind.solver.recipe import Argument, BufferArg, Memory, ScalarArg, i32
from convfind.types import Direction

#: Kernels and libraries count rows, columns and positions in 32 bits.
LARGEST = 2**31 - 1


def u64(value: int) -> ScalarArg:
    """A 64-bit unsigned argument."""
    return ScalarArg(value, "uint64")


@dataclass(frozen=True, slots=True)
class Operand:
    """Location of a batch of row-major matrices, in elements from the start of ``memory``."""

    memory: BufferArg
    ld: int
    offset: int = 0
    outer: int = 0  # from one outer member of the batch to the next
    inner: int = 0

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The kernels' arguments for one operand."""
        return (self.memory, u64(self.offset), u64(self.ld), u64(self.outer), u64(self.inner))


@dataclass(frozen=True, slots=True)
class Gemm:
    """``C = alpha * op(A) * op(B) + beta * C`` over a two-level batch.

    A is M x K (K x M if ``trans_a``), B is K x N (N x K if ``trans_b``), C is M x N. ``rest`` is
    what else becomes of the products: bias, z and activation; rows or columns have a channel each.
    """

    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    c: Operand
    trans_a: bool = False
    trans_b: bool = False
    outer: int = 1
    inner: int = 1
    alpha: float = 1.0
    beta: float = 0.0
    rest: Epilogue = NO_EPILOGUE
    channels_are_rows: bool = False

    @property
    def batch(self) -> int:
        """Number of products."""
        return self.outer * self.inner

    @property
    def epilogue(self) -> Epilogue:
        """The epilogue of the products."""
        return replace(self.rest, alpha=self.alpha, beta=self.beta)

    def completing(self, problem: ConvProblem) -> Gemm:
        """Return the product of which C is the result of a problem, with all of its epilogue."""
        by_row = not problem.tensor_layout(problem.direction.writes).channels_last
        rest = Epilogue.of(problem)
        return replace(self, beta=problem.beta, rest=rest, channels_are_rows=by_row)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Return the arguments with which both kernels begin."""
        return (
            *(i32(self.m), i32(self.n), i32(self.k), *self.epilogue.arguments),
            *(*self.a.arguments, *self.b.arguments, *self.c.arguments, i32(self.inner)),
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a convolution that determine its matrices."""

    images: int
    groups: int
    channels: int  # of a group
    filters: int  # of a group
    taps: int
    positions: int  # of an image of y
    channels_last: bool
    column_bytes: int = 4  # of an element of the columns

    @classmethod
    def of(cls, problem: ConvProblem) -> Shape:
        """Return the shape of a problem."""
        return cls(
            problem.x_shape[0],
            problem.groups,
            problem.w_shape[1],
            problem.w_shape[0] // problem.groups,
            math.prod(problem.filter),
            math.prod(problem.y_shape[2:]),
            problem.x_layout.channels_last,
        )

    @property
    def depth(self) -> int:
        """Length of a filter: rows (channels last: row length) of a group's columns."""
        return self.channels * self.taps

    @property
    def position_bytes(self) -> int:
        """Bytes that one position takes in the columns."""
        return self.column_bytes * self.groups * self.depth

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights in single precision."""
        return 4 * self.groups * self.filters * self.depth


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole images, or some positions of one image."""

    image: int
    images: int
    position: int
    positions: int


def whole(shape: Shape) -> Chunk:
    """Return the chunk of the whole convolution."""
    return Chunk(0, shape.images, 0, shape.positions)


@lru_cache(maxsize=64)
def whole_gemm(problem: ConvProblem) -> Gemm:
    """Return the product for the whole batch at once."""
    return gemm_of(problem, whole(Shape.of(problem)), BufferArg(Memory.X))


def size_refusal(problem: ConvProblem) -> Rejected | None:
    """Return a refusal of matrices or axes that kernels and libraries cannot count in 32 bits."""
    pads = max(problem.padding) + max(problem.padding_end)
    if problem.traffic + problem.x_shape[1] * pads <= LARGEST:
        return None  # a bound that is quick to compute, and true of nearly every problem
    largest = _largest_size(problem)
    if largest <= LARGEST:
        return None
    return Rejected(Reason.SIZE_LIMIT, f"a matrix or axis of {largest}")


def _largest_size(problem: ConvProblem) -> int:
    """The largest number that a kernel or a library holds in an int."""
    gemm = whole_gemm(problem)
    pads = zip(problem.x_shape[2:], problem.padding, problem.padding_end, strict=True)
    axes = [size + begin + end for size, begin, end in pads]
    line = problem.x_shape[1] * axes[-1]  # channels last, the kernels count its elements
    positions = max(math.prod(problem.x_shape[2:]), math.prod(problem.y_shape[2:]))
    return max(gemm.m, gemm.n, gemm.k, gemm.batch, line, positions, *axes)


def gemm_of(problem: ConvProblem, chunk: Chunk, columns: BufferArg) -> Gemm:
    """Return the product for a chunk, with its columns at the start of ``columns``.

    Columns are computed from x by `im2col`; for a pointwise convolution x itself has their form.
    Backward-data computes the gradient of the columns, without beta. The products of the weight
    gradient are summed over ``outer``: all of them have the same C.
    """
    shape = Shape.of(problem)
    build = _channels_last if shape.channels_last else _channels_first
    return build(problem, shape, chunk, columns)


def _weights(shape: Shape) -> Operand:
    return Operand(BufferArg(Memory.W), shape.depth, inner=shape.filters * shape.depth)


def _channels_first(problem: ConvProblem, shape: Shape, chunk: Chunk, columns: BufferArg) -> Gemm:
    """Per image and group: y (filters x positions) = w (filters x depth) * columns."""
    filters, depth, positions = shape.filters, shape.depth, chunk.positions
    w = _weights(shape)
    col = Operand(
        columns, positions, outer=shape.groups * depth * positions, inner=depth * positions
    )
    image = shape.groups * filters * shape.positions
    y = Operand(
        BufferArg(Memory.Y),
        shape.positions,
        chunk.image * image + chunk.position,
        image,
        filters * shape.positions,
    )
    batch = (chunk.images, shape.groups, problem.alpha)
    if problem.direction is Direction.FORWARD:
        return Gemm(filters, positions, depth, w, col, y, False, False, *batch, beta=problem.beta)
    if problem.direction is Direction.BACKWARD_DATA:
        return Gemm(depth, positions, filters, w, y, col, True, False, *batch)
    return Gemm(filters, depth, positions, y, col, w, False, True, *batch)


def _channels_last(problem: ConvProblem, shape: Shape, chunk: Chunk, columns: BufferArg) -> Gemm:
    """Per group: y (images and positions x filters) = columns * w transposed."""
    filters, depth = shape.filters, shape.depth
    rows = chunk.images * chunk.positions
    w = _weights(shape)
    col = Operand(columns, shape.groups * depth, inner=depth)
    row = shape.groups * filters
    first = chunk.image * shape.positions + chunk.position
    y = Operand(BufferArg(Memory.Y), row, first * row, inner=filters)
    batch = (1, shape.groups, problem.alpha)
    if problem.direction is Direction.FORWARD:
        return Gemm(rows, filters, depth, col, w, y, False, True, *batch, beta=problem.beta)
    if problem.direction is Direction.BACKWARD_DATA:
        return Gemm(rows, depth, filters, y, w, col, False, False, *batch)
    return Gemm(filters, depth, rows, y, col, w, True, False, *batch)
