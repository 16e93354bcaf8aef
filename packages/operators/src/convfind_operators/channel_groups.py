"""`ChannelGroups`: a group norm on CPUs where channels are neighbours in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from convfind.device.target import Target
from convfind.solver.recipe import Argument, BufferArg, Launch, i32, i64
from convfind_operators.launching import VECTOR, activated, has_vectors, kernel, number, streamed
from convfind_operators.normalization import GroupNormProblem
from convfind_operators.walk import View, Walk

#: Channels of a group from which on its own elements are neighbours enough.
_WIDE = 64
#: Channels of a work-item at most, and work-items of a core.
_MOST_CHANNELS, _ITEMS_PER_CORE = 512, 4
_MOST_POSITIONS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ChannelGroups:
    """The steps of images and of positions, in x and in y."""

    problem: GroupNormProblem
    images: tuple[int, int]
    positions: tuple[int, int]
    count: int

    @classmethod
    def of(cls, problem: GroupNormProblem, target: Target) -> Self | None:
        """Return the groups of a problem, or None where others are as good, or a GPU computes."""
        x, scale, bias, y = problem.operands
        share = problem.x[1] // problem.groups
        steps = (x.strides[1], y.strides[1], scale.strides[0], bias.strides[0])
        if not has_vectors(target) or steps != (1, 1, 1, 1) or share >= _WIDE:
            return None
        spatial = range(2, len(problem.x))
        views = (View.of(x), View.of(y))
        walk = Walk(problem.x, views).along([at for at in spatial if problem.x[at] != 1]).merged()
        if problem.x[1] == 1 or len(walk.sizes) != 1 or walk.length > _MOST_POSITIONS:
            return None
        place_x, place_y = (view.steps[0] for view in walk.views)
        return cls(problem, (x.strides[0], y.strides[0]), (place_x, place_y), walk.length)

    def launch(self, target: Target) -> Launch:
        """Return the launch: whole groups of a part of the channels, of some images."""
        problem = self.problem
        batch, channels = problem.x[:2]
        share = channels // problem.groups
        items = _ITEMS_PER_CORE * target.compute_units
        per_item = -(-batch // items)
        # Parts begin where a vector and a group do.
        part = math.lcm(VECTOR, share)
        wanted = -(-channels // -(-items // batch))
        columns = max(min(wanted, _MOST_CHANNELS) // part, 1) * part
        applied, numbers = activated(problem.activation, problem.dtype.arithmetic)
        macros: dict[str, int | str] = {
            "DTYPE": problem.dtype.upper(),
            "CF_ARITHMETIC": problem.dtype.arithmetic.upper(),
            "CHANNELS": max(_MOST_CHANNELS, columns),
            **streamed(problem.dtype, problem.result.elements, target),
            **applied,
        }
        arguments: tuple[Argument, ...] = (
            *map(BufferArg, ("x", "scale", "bias", "y")),
            *map(i64, (self.images[0], self.positions[0], self.images[1], self.positions[1])),
            *map(i32, (batch, self.count, channels, share, per_item, columns)),
            number(problem.epsilon, problem.dtype.arithmetic),
            *numbers,
        )
        spec = kernel("channel_groups", "operators_channel_groups", target, macros)
        sizes = (-(-batch // per_item), -(-channels // columns))
        return Launch(spec, arguments, sizes, (1, 1))
