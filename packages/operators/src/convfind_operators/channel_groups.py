"""`ChannelGroups`: a group norm on CPUs where channels are neighbours in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from convfind.device.target import Target
from convfind.solver.recipe import Argument, BufferArg, Launch, i32, i64
from convfind_operators.channel_rows import ChannelRows
from convfind_operators.launching import VECTOR, activated, has_vectors, kernel, number, streamed
from convfind_operators.normalization import GroupNormProblem

#: Channels of a group from which on its own elements are neighbours enough.
_WIDE = 64
#: Channels of a work-item at most, and work-items of a core.
_MOST_CHANNELS, _ITEMS_PER_CORE = 512, 4


@dataclass(frozen=True, slots=True)
class ChannelGroups:
    """A norm, and where its channels lie."""

    problem: GroupNormProblem
    rows: ChannelRows

    @classmethod
    def of(cls, problem: GroupNormProblem, target: Target) -> Self | None:
        """Return the groups of a problem, or None where others are as good, or a GPU computes."""
        share = problem.x[1] // problem.groups
        if not has_vectors(target) or share >= _WIDE or problem.x[1] == 1:
            return None
        rows = ChannelRows.of(problem)
        return None if rows is None else cls(problem, rows)

    def launch(self, target: Target) -> Launch:
        """Return the launch: whole groups of a part of the channels, of some images."""
        problem, rows = self.problem, self.rows
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
            *map(i64, (rows.images[0], rows.positions[0], rows.images[1], rows.positions[1])),
            *map(i32, (batch, rows.count, channels, share, per_item, columns)),
            number(problem.epsilon, problem.dtype.arithmetic),
            *numbers,
        )
        spec = kernel("channel_groups", "operators_channel_groups", target, macros)
        sizes = (-(-batch // per_item), -(-channels // columns))
        return Launch(spec, arguments, sizes, (1, 1))
