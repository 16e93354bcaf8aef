"""Winograd convolution on GPUs in one launch, whose transforms and products run side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, PlainVariant, register_limit
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Fill, Memory, Recipe
from convfind_solvers_winograd.gpu import OneLaunchSolver, index, regions
from convfind_solvers_winograd.gpu_sizes import ConvSizes, filter_launch
from convfind_solvers_winograd.programs import GPU

#: The sizes of gpu_pipelined.cl: items of a work-group, tiles of a block, filters of a product,
#: work-groups that transform a block's data, and its results, bytes of a block's counters, and
#: those in front of all blocks'.
_THREADS, _BLOCK, _COLUMNS, _PARTS, _COUNTERS, _FIRST_COUNTERS = 128, 64, 64, 16, 96, 128
#: So that four work-groups run on a unit at a time.
_REGISTERS, _RESIDENT = 128, 4
#: A block is this much further than what runs at a time, so that work-groups hardly wait.
_LEAD = 1.5
#: The share of the last-level cache that rings keep: beyond it they go through memory.
_SHARE_OF_CACHE = 0.75
#: Slots beyond those between the first and the last of the blocks that are under way.
_SPARE_SLOTS = 2
#: Tickets are counted in 32 bits.
_MOST_TICKETS = 2**30
#: Products and transforms together, in FLOP/s of products, of a unit of an H100.
_RATE = 145e9


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Blocks of tiles on their way through rings of slots."""

    blocks: int  # of all groups
    products: int  # work-groups of a block's products
    slot_floats: tuple[int, int]  # of transformed data and of sums of products
    ahead: int  # blocks between data and products, and between these and results

    @property
    def slots(self) -> int:
        """Slots of a ring: more than `ahead`, and as many as are in use at a time."""
        return 2 * self.ahead + _SPARE_SLOTS

    @property
    def tickets(self) -> int:
        """Work-groups: rounds begin before the first block and end behind the last."""
        return (self.products + 2 * _PARTS) * (self.blocks + 2 * self.ahead)

    @property
    def region_bytes(self) -> tuple[int, int, int]:
        """Bytes of the rings and of the counters."""
        data, sums = (4 * self.slots * floats for floats in self.slot_floats)
        return data, sums, _FIRST_COUNTERS + self.blocks * _COUNTERS


class PipelinedSolver(OneLaunchSolver, PlainVariant):
    """A result from a source and the weights, channels last, by plain multiply-adds.

    Memory bounds the transforms and arithmetic the products: one after the other they use half of a
    GPU at a time, and what they hand over goes through device memory. Here both run at once, and
    blocks of it stay in the last-level cache. For NVIDIA's GPUs on which that is large.
    """

    backends = ("opencl", "cuda")
    domain = replace(OneLaunchSolver.domain, features=frozenset({"nv-ptx"}))
    is_dynamic = False
    #: Where solvers for matrix units take less time: two thirds on an H100.
    outdone_on: ClassVar[tuple[str, ...]] = ("sm_90",)

    form = "pipelined"
    channels_last = True

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what the others take, where rings fit the cache: on sm_80 and later."""
        if not (answer := super().applicability(problem, target)):
            return answer
        if target.compute_capability < 80:
            return Rejected(Reason.ARCHITECTURE, "is for sm_80 and later")
        if target.arch in self.outdone_on:
            return Rejected(Reason.ARCHITECTURE, "matrix units are quicker on sm_90")
        pipeline = _pipeline(self._sizes(problem), target)
        if pipeline.ahead < 1:
            return Rejected(Reason.SIZE_LIMIT, "blocks of so many channels do not fit the cache")
        if pipeline.tickets > _MOST_TICKETS:
            return Rejected(Reason.SIZE_LIMIT, f"{pipeline.tickets} work-groups")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The time of products, beside which the transforms run."""
        sizes = self._sizes(problem)
        flops = 2 * sizes.points * sizes.tiles * sizes.shape.channels * sizes.shape.filters
        seconds = flops * sizes.shape.groups / (_RATE * target.compute_units)
        return index(problem, target, seconds, sizes.packed_bytes, 3)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch for the weights; zeros for the counters, and one launch for all the rest."""
        sizes = self._sizes(problem)
        shape, pipeline = sizes.shape, _pipeline(sizes, target)
        (data, sums, counters), workspace = regions(*pipeline.region_bytes)
        epilogue = Epilogue.of(problem)
        program = GPU.program(
            "gpu_pipelined",
            epilogue.defines,
            CHANNELS=sizes.channels,
            FILTERS=sizes.filters,
            options=register_limit(target, _REGISTERS),
        )
        launch = Grid(program, "winograd_gpu_pipelined", pipeline.tickets, _THREADS)(
            *(shape.source, Memory.PACKED, shape.result),
            *(data, sums, counters, *epilogue.arguments),
            *(*sizes.numbers, pipeline.ahead, pipeline.slots),
        )
        zeros = Fill(Memory.WORKSPACE, counters.offset, pipeline.region_bytes[2])
        return Recipe(
            self.solver_id,
            (zeros, launch),
            prepare=(filter_launch(self._transforms(), sizes),),
            workspace=workspace,
            packed=sizes.packed_bytes,
        )


def _pipeline(sizes: ConvSizes, target: Target) -> Pipeline:
    """Let as many blocks be under way as keep the device busy, or as fit the cache."""
    shape = sizes.shape
    products = sizes.points * -(-sizes.filters // _COLUMNS)
    data, sums = (sizes.points * _BLOCK * count for count in (sizes.channels, sizes.filters))
    resident = _RESIDENT * target.compute_units / (products + 2 * _PARTS)
    slots = int(_SHARE_OF_CACHE * target.cache) // (4 * (data + sums))
    blocks = shape.groups * -(-sizes.tiles // _BLOCK)
    ahead = min(math.ceil(_LEAD * resident), (slots - _SPARE_SLOTS) // 2)
    return Pipeline(blocks, products, (data, sums), ahead)
