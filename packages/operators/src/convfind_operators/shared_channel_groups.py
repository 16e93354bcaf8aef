"""`SharedChannelGroups`: a group norm on GPUs where channels are neighbours in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from convfind.device.target import Target
from convfind.solver.recipe import Argument, BufferArg, Launch, Memory, i32, i64
from convfind_operators.element_type import ElementType
from convfind_operators.launching import GROUP, IN_FOURS, activated, has_vectors, kernel, number
from convfind_operators.normalization import GroupNormProblem
from convfind_operators.walk import View, Walk

#: Elements of a group from which two launches are worth it, unless its channels are no whole loads.
_LONG = 2**15
#: Channels of a group up to which one work-item merges them.
_MOST_SHARED = 128
#: Bytes of neighbours that a work-group is to have, and positions of a work-item at a time.
_WIDE_BYTES, _HELD = 256, 8
#: Work-groups that a unit is to have for moments, and pieces of an image at most, as each of those
#: for results merges them; how many of these.
_MOMENTS_OF_UNIT, _MOST_PIECES, _RESULTS_OF_UNIT = 2, 64, 8
_MOST_POSITIONS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SharedChannelGroups:
    """How work-groups share the positions of an image, and whole groups of its channels.

    Attributes:
        problem: the norm.
        images: steps of images in x and in y.
        positions: those of positions.
        count: positions of an image.
        four: neighbouring channels of a work-item.
        columns: channels of a work-group.
    """

    problem: GroupNormProblem
    images: tuple[int, int]
    positions: tuple[int, int]
    count: int
    four: int
    columns: int

    @classmethod
    def of(cls, problem: GroupNormProblem, target: Target) -> Self | None:
        """Return the shares of a problem, or None where one launch is as good."""
        x, scale, bias, y = problem.operands
        share = problem.x[1] // problem.groups
        steps = (x.strides[1], y.strides[1], scale.strides[0], bias.strides[0])
        if has_vectors(target) or steps != (1, 1, 1, 1) or target.max_work_group < GROUP:
            return None
        if problem.dtype not in IN_FOURS or share > _MOST_SHARED:
            return None
        spatial = range(2, len(problem.x))
        walk = Walk(problem.x, (View.of(x), View.of(y)))
        walk = walk.along([at for at in spatial if problem.x[at] != 1]).merged()
        if len(walk.sizes) != 1 or walk.length > _MOST_POSITIONS:
            return None
        places = (walk.views[0].steps[0], walk.views[1].steps[0])
        lines = (problem.x[1], x.strides[0], y.strides[0], *places)
        widths = (8, 4) if problem.dtype.size == 2 else (4,)
        four = next((one for one in widths if not any(line % one for line in lines)), 0)
        if not four or (walk.length * share < _LONG and not share % 4):
            return None
        # Work-groups begin where a load and a group do.
        part = math.lcm(four, share)
        columns = max(_WIDE_BYTES // problem.dtype.size // part, 1) * part
        if columns > GROUP * four:
            return None
        return cls(problem, (x.strides[0], y.strides[0]), places, walk.length, four, columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the moments of all pieces of all images, of as many as there may be."""
        moments = self.problem.x[0] * _MOST_PIECES * self.problem.groups
        return 2 * moments * ElementType.FLOAT32.size

    def launches(self, target: Target) -> tuple[Launch, Launch]:
        """Return the launches: the moments of pieces of the positions, and the results."""
        problem, arithmetic = self.problem, self.problem.dtype.arithmetic
        batch, channels = problem.x[:2]
        blocks = batch * -(-channels // self.columns)
        units = target.compute_units
        per_piece, pieces = self._divided(min(_MOMENTS_OF_UNIT * units // blocks, _MOST_PIECES))
        per_part, parts = self._divided(_RESULTS_OF_UNIT * units // blocks)
        applied, numbers = activated(problem.activation, arithmetic)
        macros: dict[str, int | str] = {
            "DTYPE": problem.dtype.upper(),
            "CF_ARITHMETIC": arithmetic.upper(),
            "FOUR": self.four,
            "GROUP": GROUP,
            **applied,
        }
        (x_n, y_n), (x_p, y_p), moments = self.images, self.positions, BufferArg(Memory.WORKSPACE)
        share = channels // problem.groups
        common = tuple(map(i32, (self.count, channels, share, self.columns, pieces, per_piece)))
        summed: tuple[Argument, ...] = (BufferArg("x"), moments, i64(x_n), i64(x_p), *common)
        written: tuple[Argument, ...] = (
            *(*map(BufferArg, ("x", "scale", "bias", "y")), moments),
            *map(i64, (x_n, x_p, y_n, y_p)),
            *(*common, i32(parts), i32(per_part), number(problem.epsilon, arithmetic), *numbers),
        )

        def launch(entry: str, count: int, arguments: tuple[Argument, ...]) -> Launch:
            spec = kernel("channel_groups_shared", entry, target, macros)
            return Launch(spec, arguments, (blocks * count * GROUP,), (GROUP,))

        return (
            launch("operators_channel_moments", pieces, summed),
            launch("operators_channel_groups_shared", parts, written),
        )

    def _divided(self, most: int) -> tuple[int, int]:
        """Return positions of a work-group, whose items have some each, and work-groups so."""
        rows = GROUP // (min(self.columns, self.problem.x[1]) // self.four)
        each = max(rows * _HELD, -(-self.count // max(most, 1)))
        return each, -(-self.count // each)
