"""1x1 convolutions of stride 1 on CPUs, channels last: products of which nothing is copied."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.pixel_pitch import has_only_pitches, pixel_pitches, without_gaps
from convfind.problem import ConvProblem, Trait
from convfind.solver import Applicability, Reason, Rejected
from convfind.solver.recipe import Argument, i32
from convfind.types import Direction
from convfind_solvers_igemm.cpu.conv import ChannelsLast, Costs
from convfind_solvers_igemm.cpu.geometry import CpuGeometry

#: The level-1 cache holds a block of a panel beside the positions of a tile.
_DEPTH = 384


class ChannelsLastFlatForward(ChannelsLast):
    """y from x and w, channels last, 1x1 filters without steps or padding."""

    version = 2
    form = "flat"
    direction = Direction.FORWARD
    domain = replace(ChannelsLast.domain, traits=ChannelsLast.domain.traits | {Trait.GAPS})
    _kernel = "cpu_flat"
    _costs = Costs(source=10.0, result=10.0, gathered=0.0)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what is one row of pixels without neighbours."""
        if not (answer := super().applicability(problem, target)):
            return answer
        shape = self._geometry(problem)
        if shape.groups > 1:
            return Rejected(Reason.GROUPS, "one only")
        if shape.taps > 1:
            return Rejected(Reason.FILTER_SIZE, "1x1 only")
        if any(shape.padding):
            return Rejected(Reason.PADDING, "none only")
        if shape.size != shape.out or max(shape.stride) > 1:
            return Rejected(Reason.STRIDE, "1 only")
        return has_only_pitches(problem)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The index of packed tensors: gaps are not written."""
        return super().wti(without_gaps(problem), target)

    def _runs(self, positions: int, filters: int) -> tuple[int, int]:
        return filters, positions

    def _more_arguments(self, problem: ConvProblem) -> tuple[Argument, ...]:
        pitches = pixel_pitches(problem)
        assert pitches is not None
        return tuple(map(i32, pitches))

    def _depth(self, shape: CpuGeometry) -> int:
        return _DEPTH
