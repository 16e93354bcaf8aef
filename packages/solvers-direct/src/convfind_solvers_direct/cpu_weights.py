"""Few channels a group on CPUs: the weight gradient."""

from __future__ import annotations

import math

from convfind.applicability import Applicability, Rejected
from convfind.config import Config
from convfind.kernel_spec import KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, ScalarArg, f32, i32, i64
from convfind.target import Target
from convfind.types import Direction
from convfind_solvers_direct.cpu_conv import STRIP_FLOATS, CpuDirect, row_floats, strip_rows
from convfind_solvers_direct.cpu_solver import (
    VECTOR,
    has_many_registers,
    items_wanted,
    program_of,
)
from convfind_solvers_direct.window import Window, window

#: Vectors of sums that an item keeps in registers: of 32 of 16 floats, and of 16 of 8.
_MOST_SUMS, _FEW_SUMS = 27, 6
#: Channels last, rows and columns of y at a time: of small filters, of these with strides, whose
#: windows share little, or groups, whose channels are exchanged, and of large ones or where there
#: are registers for a row of taps.
_PIXELS, _PIXELS_OF_STRIDED, _PIXELS_OF_LARGE = (3, 2), (2, 2), (1, 4)
#: Channels first, vectors of sums that an item has room for: those of a source channel.
_MOST_TOTALS = 4096


class CpuWeights(CpuDirect):
    """w from x and y: sums of parts, added up by a second launch in a fixed order."""

    direction = Direction.BACKWARD_WEIGHTS

    def _judge_sizes(self, shape: Window) -> Applicability:
        """Judge also whether the sums of an item's filters fit its private memory."""
        sums = shape.filters * math.prod(shape.taps)
        if not self.channels_last and sums > _MOST_TOTALS:
            return Rejected(Reason.FILTER_SIZE, f"{sums} sums, more than {_MOST_TOTALS}")
        return super()._judge_sizes(shape)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the parts: one at least."""
        parts, _, _ = self._plan(problem, target, limit)
        return parts * _part_bytes(window(problem), self.channels_last)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch for the parts, and one that adds them up."""
        shape = window(problem)
        parts, sizes, more = self._plan(problem, target, workspace_limit)
        program = self._program(shape, target)
        sums = Launch(
            KernelSpec(program, "direct_cpu_weights"),
            (
                BufferArg(Memory.X),
                BufferArg(Memory.Y),
                BufferArg(Memory.WORKSPACE),
                *map(i32, (shape.images, shape.groups, *shape.size, *shape.out, *shape.padding)),
                *more,
            ),
            sizes,
            tuple(1 for _ in sizes),
        )
        runs = shape.groups * shape.channels if self.channels_last else problem.elements("w")
        add_up = Launch(
            KernelSpec(program, "direct_cpu_sum"),
            (
                BufferArg(Memory.WORKSPACE),
                BufferArg(Memory.W),
                f32(problem.alpha),
                f32(problem.beta),
                i32(shape.groups),
                i32(parts),
            ),
            (-(-runs // VECTOR),),
            (1,),
        )
        workspace = parts * _part_bytes(shape, self.channels_last)
        return ConvSolution(self.solver_id, (sums, add_up), workspace=workspace)

    def _program(self, shape: Window, target: Target) -> Program:
        height, width = shape.taps
        most = _MOST_SUMS if has_many_registers(target) else _FEW_SUMS
        if self.channels_last:
            rows, columns, chunk = _pixels_tile(shape, target)
            return program_of("cpu_weights_pixels", shape, CHUNK=chunk, ROWS=rows, COLUMNS=columns)
        # Filters share what is read of x.
        shared = (f for f in (4, 2) if shape.filters % f == 0 and f * width <= most)
        filters = next(shared, 1)
        chunk = min(height, max(1, most // (filters * width)))
        return program_of(
            "cpu_weights_planes",
            shape,
            CHUNK=chunk,
            FILTERS_AT_ONCE=filters,
            STRIP_FLOATS=STRIP_FLOATS,
        )

    def _plan(
        self, problem: ConvProblem, target: Target, limit: int | None
    ) -> tuple[int, tuple[int, ...], tuple[ScalarArg, ...]]:
        """Return the parts, the global size, and the arguments that depend on the layout."""
        shape = window(problem)
        most = items_wanted(target)
        if limit is not None:
            most = max(1, min(most, limit // _part_bytes(shape, self.channels_last)))
        if self.channels_last:
            strips = shape.images * -(-shape.out[0] // _pixels_tile(shape, target)[0])
            share = -(-strips // most)
            parts = -(-strips // share)
            return parts, (parts,), (i64(share),)
        # Groups are shared out first: they need no workspace.
        share = -(-shape.groups // min(shape.groups, items_wanted(target)))
        runs = -(-shape.groups // share)
        most = max(1, min(most, shape.images, items_wanted(target) // runs))
        span = -(-shape.images // most)
        parts = -(-shape.images // span)
        more = map(i32, (share, span, strip_rows(shape, 1), row_floats(shape)))
        return parts, (runs, parts), tuple(more)


class CpuPlanesWeights(CpuWeights):
    """Channels first."""

    solver_id = "direct-cpu-nchw-bwd-weights"
    channels_last = False


class CpuPixelsWeights(CpuWeights):
    """Channels last."""

    version = 4
    solver_id = "direct-cpu-nhwc-bwd-weights"
    channels_last = True


def _pixels_tile(shape: Window, target: Target) -> tuple[int, int, int]:
    """Rows and columns of y, and rows of taps, at a time, channels last."""
    height, width = shape.taps
    chunk = min(height, max(1, _MOST_SUMS // width))
    is_plain = max(shape.stride) == 1 and shape.channels == 1
    is_short = shape.channels == 1 and not has_many_registers(target)
    if height * width > 9 or (is_plain and is_short):
        return *_PIXELS_OF_LARGE, 1 if is_short else chunk
    rows, columns = _PIXELS if is_plain else _PIXELS_OF_STRIDED
    return min(rows, height), columns, chunk


def _part_bytes(shape: Window, channels_last: bool) -> int:
    channels = shape.groups * shape.channels
    if channels_last:
        channels = -(-channels // VECTOR) * VECTOR
    return 4 * channels * shape.filters * math.prod(shape.taps)


#: The solvers of backward-weights, best first.
CPU_WEIGHTS_SOLVERS: tuple[type[CpuWeights], ...] = (CpuPlanesWeights, CpuPixelsWeights)
