"""Few channels a group and stride 1 on GPUs, channels first: four columns an item."""

from __future__ import annotations

import math
from dataclasses import dataclass

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config
from convfind.defines import make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.search_space import Constraint, Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, f32, i32, i64
from convfind.target import Target
from convfind.types import DataType
from convfind_solvers_direct.gpu_conv import MOST_WEIGHTS, PACKAGE, GpuDirect, most_weights
from convfind_solvers_direct.planes_tile import reciprocal
from convfind_solvers_direct.window import Window, window

#: Floats of local memory that devices with 48 KiB have room for.
_MOST_FLOATS = 12288
_SMALL_TILE = 4096
_MOST_TAPS = 11
#: Fours that an item copies at a time.
_MOST_COPIES = 8
#: Sums of an item.
_MOST_SUMS = 64
ROWS = Parameter("rows", (2, 4, 5, 6, 7, 8), "rows of the result of an item")
RESULTS = Parameter("results", (1, 2, 4), "result channels of an item")
WIDE_ITEMS = Parameter("items", tuple(range(32, 257, 32)), "of a work-group")


@dataclass(frozen=True, slots=True)
class WideTile:
    """What a work-group computes: a band of strips of rows, of a run of sets of channels."""

    above: int  # rows of zeros
    before: int  # fours of columns of zeros
    lead: int  # columns of these before the first tap
    pitch: int  # fours of a row
    rows: int  # in local memory, of a plane
    strips: int
    bands: int
    run: int
    floats: int  # of local memory


def wide_tile(shape: Window, config: Config) -> WideTile:
    """As many sets as keep the items busy, or a band of one."""
    rows, items = config.integer("rows"), config.integer("items")
    above, left = _padding(shape)
    before = -(-left // 4)
    lead = 4 * before - left
    fours = shape.out[1] // 4
    share = fours * (shape.filters // config.integer("results"))
    pitch = max(before + shape.size[1] // 4, fours - 1 + (lead + shape.taps[1] + 6) // 4)
    all_strips = -(-shape.out[0] // rows)
    strips = min(all_strips, max(items // share, 1))
    bands = -(-all_strips // strips)
    strips = -(-all_strips // bands)
    run = max(items // (share * strips), 1) if bands == 1 else 1
    height = strips * rows + shape.taps[0] - 1
    floats = 4 * pitch * height * run * shape.channels
    return WideTile(above, before, lead, pitch, height, strips, bands, run, floats)


class WideConv(GpuDirect):
    """Forward and backward-data."""

    channels_last = False
    prefix = "direct-gpu-wide"
    version = 2
    arithmetic_share = 0.45

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Seven or eight rows, of two results where they are even; fewer rows where these fit."""
        shape = window(problem)
        tall = min((7, 8, 4), key=lambda rows: -(-shape.out[0] // rows) * rows)
        items = min(128, target.max_work_group)
        pairs = shape.filters % 2 == 0 and math.prod(shape.taps) <= MOST_WEIGHTS // 2
        results = 2 if pairs else 1
        others = (
            Config(rows=rows, items=count, results=results)
            for count in (items, 64, 32)
            for rows in (tall, 4, 2)
        )
        return next(config for config in others if wide_tile(shape, config).floats <= _MOST_FLOATS)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Rows of an item, and work-groups."""
        shape = window(problem)
        return SearchSpace(
            (ROWS, WIDE_ITEMS, RESULTS),
            (
                Constraint(
                    "results",
                    lambda config: shape.filters % config.integer("results") == 0,
                    "a divisor of a group's",
                ),
                Constraint(
                    "registers",
                    lambda config: (
                        4 * config.integer("rows") * config.integer("results") <= _MOST_SUMS
                        and config.integer("results") * math.prod(shape.taps) <= MOST_WEIGHTS
                    ),
                    "sums and weights have to fit them",
                ),
                Constraint(
                    "size",
                    lambda config: config.integer("items") <= target.max_work_group,
                    f"at most {target.max_work_group} items",
                ),
                Constraint(
                    "tile",
                    lambda config: wide_tile(shape, config).floats <= _MOST_FLOATS,
                    "it has to fit local memory",
                ),
            ),
        )

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch, no workspace."""
        shape = window(problem)
        chosen = config or self.default_config(problem, target)
        tile = wide_tile(shape, chosen)
        items = chosen.integer("items")
        room = _SMALL_TILE if tile.floats <= _SMALL_TILE else -(-tile.floats // 2048) * 2048
        macros = {
            **shape.macros,
            "ROWS": chosen.integer("rows"),
            "ITEMS": items,
            "RESULTS": chosen.integer("results"),
            "COPIES": min(-(-room // (4 * items)), _MOST_COPIES),
            "LEAD": tile.lead,
            "TILE_FLOATS": room,
        }
        program = Program(
            KernelSource(PACKAGE, "kernels/gpu_wide.cl"), defines=make_defines(macros)
        )
        sets = shape.images * shape.groups
        dividers = (tile.pitch, tile.rows, shape.out[1] // 4, tile.strips)
        launch = Launch(
            KernelSpec(program, "direct_gpu_wide"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.W),
                BufferArg(shape.result),
                f32(problem.alpha),
                f32(problem.beta),
                i64(sets),
                *map(i32, (shape.groups, *shape.size, *shape.out, tile.above, tile.before)),
                *map(i32, (tile.pitch, tile.run, tile.bands, tile.strips)),
                *(i32(reciprocal(divider)) for divider in dividers),
            ),
            (-(-sets // tile.run) * tile.bands * items,),
            (items,),
        )
        return ConvSolution(self.solver_id, (launch,), config=chosen)

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if problem.dtype is not DataType.FLOAT32:
            return Rejected(Reason.DTYPE, "is float32 only")
        if max(*shape.stride, *shape.dilation) > 1:
            return Rejected(Reason.STRIDE, "is for strides and dilations of 1")
        most = most_weights(target)
        if math.prod(shape.taps) > most or max(shape.taps) > _MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"is for {most} taps at most")
        if min(_padding(shape)) < 0:
            return Rejected(Reason.PADDING, "more zeros than the filter reaches")
        if shape.size[1] % 4 or shape.out[1] % 4:
            return Rejected(Reason.SIZE_LIMIT, "rows must be whole fours")
        if target.local_memory < 4 * _MOST_FLOATS:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {4 * _MOST_FLOATS} bytes")
        if wide_tile(shape, Config(rows=2, items=32, results=1)).floats > _MOST_FLOATS:
            return Rejected(Reason.SIZE_LIMIT, "rows do not fit local memory")
        return APPLICABLE


def _padding(shape: Window) -> tuple[int, int]:
    """Zeros before the source that the first result takes."""
    if not shape.is_gradient:
        return shape.padding
    height, width = (taps - 1 - pad for taps, pad in zip(shape.taps, shape.padding, strict=True))
    return height, width
