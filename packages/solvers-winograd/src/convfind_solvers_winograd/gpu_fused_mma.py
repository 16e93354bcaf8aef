"""Fused Winograd convolution on NVIDIA's tensor cores: forward and the data gradient."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, PlainVariant
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind_solvers_winograd.geometry import geometry
from convfind_solvers_winograd.gpu import OneLaunchSolver, index
from convfind_solvers_winograd.gpu_product import tensor_core_products
from convfind_solvers_winograd.gpu_sizes import ConvSizes, FilterOrder, filter_launch
from convfind_solvers_winograd.programs import GPU

#: The work-group of gpu_fused_mma.cl.
_THREADS, _TILES, _FILTERS, _CHANNELS = 256, 32, 32, 8
#: Channels that it copies at a time.
_COPIED = 4
#: Channels whose sum tensor cores, which cut off what they add up, leave precise enough.
_LONGEST = 512
#: Times of a work-group alone on a unit of an H200: a step, and the work around the sum.
_STEP_SECONDS, _OTHER_SECONDS = 1.75e-6, 6.5e-6


class FusedMmaSolver(OneLaunchSolver, PlainVariant):
    """A result from a source and the weights, channels last; the weights are transformed ahead.

    For F(4, 3): 36 points of 32 tiles and 32 filters are as many sums as a unit's registers hold.
    """

    backends = ("opencl", "cuda")
    domain = replace(OneLaunchSolver.domain, features=frozenset({"nv-ptx"}))
    filter_order = FilterOrder.FRAGMENTS

    form = "fused-mma"
    channels_last = True

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what the others take, where the kernel's tile fits: on sm_90 and later."""
        if not (answer := super().applicability(problem, target)):
            return answer
        if target.compute_capability < 90:
            return Rejected(Reason.ARCHITECTURE, "is for sm_90 and later")
        channels = geometry(problem).channels
        if channels % _COPIED != 0 or channels > _LONGEST:
            text = f"is for sums over at most {_LONGEST} channels, multiples of {_COPIED}"
            return Rejected(Reason.CHANNELS, text)
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The time of rounds of blocks, one on a unit at a time."""
        sizes = self._sizes(problem)
        rounds = -(-self._blocks(sizes) // target.compute_units)
        steps = -(-sizes.shape.channels // _CHANNELS)
        seconds = rounds * (steps * _STEP_SECONDS + _OTHER_SECONDS)
        return index(problem, target, seconds, sizes.packed_bytes, 2)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch for the weights, and one for all the rest."""
        sizes = self._sizes(problem)
        shape = sizes.shape
        epilogue = Epilogue.of(problem)
        program = GPU.program(
            "gpu_fused_mma",
            epilogue.defines,
            PRODUCTS=tensor_core_products(problem, self.transform),
        )
        groups = min(self._blocks(sizes), target.compute_units)
        fused = Grid(program, "winograd_gpu_fused", groups, _THREADS)(
            *(shape.source, Memory.PACKED, shape.result),
            *epilogue.arguments,
            *(*sizes.numbers, sizes.packed_channels, sizes.packed_filters),
        )
        transforms = self._transforms(FILTERS_IN_FRAGMENTS=1)
        return Recipe(
            self.solver_id,
            (fused,),
            prepare=(filter_launch(transforms, sizes),),
            packed=sizes.packed_bytes,
        )

    @staticmethod
    def _blocks(sizes: ConvSizes) -> int:
        shape = sizes.shape
        return shape.groups * -(-shape.filters // _FILTERS) * -(-sizes.tiles // _TILES)
