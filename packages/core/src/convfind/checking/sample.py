"""`Sample`: some images or groups of a convolution, which say whether a device computes it rightly.

Images of a result do not depend on each other, nor do groups, and nobody knows before which of them
are looked at. A device that errs in others alone is believed: then it refuses candidates that are
right, and accepts those alone that err as it does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from convfind.checking.draw import Computed
from convfind.problem import ConvProblem
from convfind.types import Direction

Array = np.ndarray[Any, Any]

#: Images or groups of a sample: the first, the last, and some between them; more where images have
#: so few positions that their sums say little.
_COUNT, _POSITIONS = 8, 256


@dataclass(frozen=True, slots=True)
class Sample:
    """A problem with some of another one's images, or groups; or with all of them.

    Attributes:
        problem: the smaller problem, whose tensors are packed.
        images: which of them, or None for all.
        groups: likewise.
        each: channels of x and of y that a group has.
    """

    problem: ConvProblem
    images: Array | None = None
    groups: Array | None = None
    each: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, problem: ConvProblem) -> Self:
        """Draw a sample of a plain problem that nobody knows beforehand.

        Gradients of weights are sums over all images, so that only groups can be left out.
        """
        batch = problem.x_shape[0]
        if problem.direction is not Direction.BACKWARD_WEIGHTS:
            positions = math.prod(problem.shape(problem.direction.writes)[2:])
            count = max(_COUNT, -(-_POSITIONS // max(positions, 1)))
            if batch <= count:
                return cls(problem)
            return cls(problem.with_batch(count), images=_some_of(batch, count))
        if problem.groups <= _COUNT:
            return cls(problem)
        channels = problem.x_shape[1] // problem.groups
        filters = problem.w_shape[0] // problem.groups
        smaller = replace(
            problem,
            groups=_COUNT,
            x_shape=(batch, _COUNT * channels, *problem.x_shape[2:]),
            w_shape=(_COUNT * filters, *problem.w_shape[1:]),
            x_strides=None,
            w_strides=None,
            y_strides=None,
        )
        return cls(smaller, groups=_some_of(problem.groups, _COUNT), each=(channels, filters))

    def result(self, computed: Computed) -> Array:
        """Return what the sample has of a result."""
        if self.images is not None:
            return computed.rows(self.images)
        return self.part(self.problem.direction.writes, computed.whole())

    def part(self, name: str, array: Array) -> Array:
        """Return what the sample has of a tensor, axes in the order of the layout."""
        if self.images is not None:
            return array if name == "w" else array[self.images]
        if self.groups is None:
            return array
        each = self.each[0 if name == "x" else 1]
        places = (self.groups[:, None] * each + np.arange(each)).ravel()
        is_last = name != "w" and self.problem.tensor_layout(name).channels_last
        return array.take(places, 0 if name == "w" else -1 if is_last else 1)


def _some_of(all_of_them: int, count: int) -> Array:
    between = np.arange(1, all_of_them - 1)
    drawn = np.random.default_rng().choice(between, count - 2, replace=False)
    return np.array([0, *sorted(drawn), all_of_them - 1])
