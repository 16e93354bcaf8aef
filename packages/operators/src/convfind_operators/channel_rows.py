"""`ChannelRows`: the positions of images whose channels are neighbours in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from convfind_operators.normalization import GroupNormProblem
from convfind_operators.walk import View, Walk

_MOST_POSITIONS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ChannelRows:
    """How far apart images and positions are in x and in y, and how many positions there are."""

    images: tuple[int, int]
    positions: tuple[int, int]
    count: int

    @classmethod
    def of(cls, problem: GroupNormProblem) -> Self | None:
        """Return those of a norm; None where channels or positions lie otherwise."""
        x, scale, bias, y = problem.operands
        steps = (x.strides[1], y.strides[1], scale.strides[0], bias.strides[0])
        if steps != (1, 1, 1, 1):
            return None
        spatial = range(2, len(problem.x))
        walk = Walk(problem.x, (View.of(x), View.of(y)))
        walk = walk.along([at for at in spatial if problem.x[at] != 1]).merged()
        if len(walk.sizes) != 1 or walk.length > _MOST_POSITIONS:
            return None
        place_x, place_y = (view.steps[0] for view in walk.views)
        return cls((x.strides[0], y.strides[0]), (place_x, place_y), walk.length)
