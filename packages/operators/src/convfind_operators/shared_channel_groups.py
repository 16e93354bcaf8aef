"""`SharedChannelGroups`: a group norm on GPUs where channels are neighbours in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from convfind.device.target import Target
from convfind.solver.recipe import Argument, BufferArg, Launch, Memory, i32, i64
from convfind_operators.channel_rows import ChannelRows
from convfind_operators.element_type import ElementType
from convfind_operators.launching import GROUP, IN_FOURS, activated, has_vectors, kernel, number
from convfind_operators.normalization import GroupNormProblem

#: Elements of a group from which two launches are worth it, unless its channels are no whole loads.
_LONG = 2**15
#: Channels of a group up to which one work-item merges them.
_MOST_SHARED = 128
#: Bytes of neighbours that a work-group is to have, and positions of a work-item at a time.
_WIDE_BYTES, _HELD = 256, 8
#: Work-groups that a unit is to have for moments, and pieces of an image at most, as each of those
#: for results merges them; how many of these.
_MOMENTS_OF_UNIT, _MOST_PIECES, _RESULTS_OF_UNIT = 2, 64, 8


@dataclass(frozen=True, slots=True)
class SharedChannelGroups:
    """How work-groups share the positions of an image, and whole groups of its channels.

    Attributes:
        problem: the norm.
        rows: where its channels lie.
        four: neighbouring channels of a work-item.
        columns: channels of a work-group.
    """

    problem: GroupNormProblem
    rows: ChannelRows
    four: int
    columns: int

    @classmethod
    def of(cls, problem: GroupNormProblem, target: Target) -> Self | None:
        """Return the shares of a problem, or None where one launch is as good."""
        share = problem.x[1] // problem.groups
        if has_vectors(target) or target.max_work_group < GROUP:
            return None
        if problem.dtype not in IN_FOURS or share > _MOST_SHARED:
            return None
        rows = ChannelRows.of(problem)
        if rows is None:
            return None
        lines = (problem.x[1], *rows.images, *rows.positions)
        widths = (8, 4) if problem.dtype.size == 2 else (4,)
        four = next((one for one in widths if not any(line % one for line in lines)), 0)
        if not four or (rows.count * share < _LONG and not share % 4):
            return None
        # Work-groups begin where a load and a group do.
        part = math.lcm(four, share)
        columns = max(_WIDE_BYTES // problem.dtype.size // part, 1) * part
        if columns > GROUP * four:
            return None
        return cls(problem, rows, four, columns)

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
        (x_n, y_n), (x_p, y_p) = self.rows.images, self.rows.positions
        moments = BufferArg(Memory.WORKSPACE)
        sizes = (self.rows.count, channels, channels // problem.groups, self.columns)
        common = tuple(map(i32, (*sizes, pieces, per_piece)))
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
        each = max(rows * _HELD, -(-self.rows.count // max(most, 1)))
        return each, -(-self.rows.count // each)
