"""Fused Winograd convolution on GPUs for few channels or few filters: first and last layers."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, PlainVariant
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import Memory, Recipe
from convfind_solvers_winograd.geometry import geometry
from convfind_solvers_winograd.gpu import OneLaunchSolver, index
from convfind_solvers_winograd.programs import GPU

#: Points of so many channels or filters fit the registers of a work-item.
MOST = 3
#: The work-group of gpu_few_channels.cl and gpu_few_filters.cl.
_THREADS, _FILTERS, _TILES = 128, 64, 32
_LANES = 8  # of few filters: items of a tile
#: Work-groups of gpu_few_channels.cl on a unit at a time.
_RESIDENT = 2
#: The rate of a unit of an H200: tiles of a channel and a filter in a second, without memory.
_FEW_CHANNELS_RATE, _FEW_FILTERS_RATE = 3.3e9, 0.9e9


class NarrowSolver(OneLaunchSolver, PlainVariant):
    """A result from a source and the weights, channels last.

    With few channels, the points of a filter stay in registers from tile to tile; with few filters,
    the sums of their points do from channel to channel.
    """

    domain = OneLaunchSolver.domain.without(Trait.GROUPS)

    form = "narrow"
    channels_last = True

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what the others take, with few channels on one side."""
        if not (answer := super().applicability(problem, target)):
            return answer
        shape = geometry(problem)
        if min(shape.channels, shape.filters) > MOST:
            return Rejected(Reason.CHANNELS, f"is for at most {MOST} channels of x or of y")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The time of products, which memory adds to."""
        sizes = self._sizes(problem)
        shape = sizes.shape
        rate = _FEW_CHANNELS_RATE if shape.channels <= MOST else _FEW_FILTERS_RATE
        seconds = sizes.tiles * shape.channels * shape.filters / (rate * target.compute_units)
        return index(problem, target, seconds, problem.traffic, 1)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch."""
        sizes = self._sizes(problem)
        shape = sizes.shape
        numbers: tuple[int, ...] = (*shape.size, *shape.out, *shape.padding, *sizes.tiles_of_image)
        _, filter_step, channel_step, tap_step = shape.weight_steps
        numbers += (filter_step, channel_step, tap_step, int(shape.flipped))
        if shape.channels <= MOST:
            name = "few_channels"
            macros: dict[str, DefineValue] = {"CHANNELS": shape.channels}
            apart = min(-(-sizes.tiles // _TILES), target.compute_units * _RESIDENT)
            count = -(-shape.filters // _FILTERS) * apart
            numbers = (shape.images, shape.filters, *numbers, apart)
        else:
            name = "few_filters"
            macros = {"FILTERS": shape.filters}
            count = -(-sizes.tiles * _LANES // _THREADS)
            numbers = (shape.images, shape.channels, *numbers)
        epilogue = Epilogue.of(problem)
        program = GPU.program(f"gpu_{name}", macros, epilogue.defines)
        main = Grid(program, f"winograd_gpu_{name}", count, _THREADS)(
            *(shape.source, Memory.W, shape.result),
            *epilogue.arguments,
            *numbers,
        )
        return Recipe(self.solver_id, (main,))
