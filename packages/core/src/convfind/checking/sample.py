"""`Sample`: a part of a convolution, which says whether a device computes it rightly.

Images of a result do not depend on each other, nor do groups, nor gradients of different weights,
and nobody knows before which of them are looked at. A device that errs in others alone is believed:
then it refuses candidates that are right, and accepts those alone that err as it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from convfind.checking.draw import Computed
from convfind.problem import ConvProblem
from convfind.types import Direction

Array = np.ndarray[Any, Any]

#: Images or groups of a sample: the first, the last, and some between them; more where images have
#: so few positions that their sums say little.
_COUNT, _POSITIONS = 8, 256
#: Filters of a sample of gradients, and sums that are left of them.
_FILTERS, _GRADIENTS = 16, 64


@dataclass(frozen=True, slots=True)
class Sample:
    """A problem with some of another one's images, groups, or channels; or with all of them.

    Attributes:
        problem: the smaller problem, whose tensors are packed.
        chosen: for each tensor, by axis in N, C, spatial order, those of a larger one that are in
            it; all where an axis is missing.
    """

    problem: ConvProblem
    chosen: Mapping[str, Mapping[int, Array]] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: ConvProblem) -> Self:
        """Draw a sample of a plain problem that nobody knows beforehand.

        Gradients of weights are sums over all images, so that only groups can be left out, or
        where there is one group channels.
        """
        if problem.direction is not Direction.BACKWARD_WEIGHTS:
            batch = problem.x_shape[0]
            positions = math.prod(problem.shape(problem.direction.writes)[2:])
            images = _some_of(batch, max(_COUNT, -(-_POSITIONS // max(positions, 1))))
            if len(images) == batch:
                return cls(problem)
            return cls(problem.with_batch(len(images)), {"x": {0: images}, "y": {0: images}})
        groups = _some_of(problem.groups, _COUNT)
        if problem.groups == 1:
            taps = math.prod(problem.filter)
            channels = _some_of(problem.x_shape[1], max(_COUNT, -(-_GRADIENTS // taps)))
            filters = _some_of(problem.w_shape[0], _FILTERS)
            of_w = {0: filters, 1: channels}
        else:
            channels = _members(groups, problem.x_shape[1] // problem.groups)
            filters = _members(groups, problem.w_shape[0] // problem.groups)
            of_w = {0: filters}
        if (len(filters), len(channels)) == (problem.w_shape[0], problem.x_shape[1]):
            return cls(problem)
        smaller = replace(
            problem,
            groups=len(groups),
            x_shape=(problem.x_shape[0], len(channels), *problem.x_shape[2:]),
            w_shape=(len(filters), len(channels) // len(groups), *problem.w_shape[2:]),
            x_strides=None,
            w_strides=None,
            y_strides=None,
        )
        return cls(smaller, {"x": {1: channels}, "y": {1: filters}, "w": of_w})

    def result(self, computed: Computed) -> Array:
        """Return what the sample has of a result."""
        writes = self.problem.direction.writes
        places = self.places(writes)
        if [*places] == [0]:
            return computed.rows(places[0])
        return self.part(writes, computed.whole())

    def part(self, name: str, array: Array) -> Array:
        """Return what the sample has of a tensor, axes in the order of the layout."""
        for axis, places in self.places(name).items():
            array = array.take(places, axis)
        return array

    def places(self, name: str) -> dict[int, Array]:
        """Return which elements of a tensor are in it, by axis in the order of the layout."""
        chosen = self.chosen.get(name, {})
        if not self.problem.tensor_layout(name).channels_last:
            return dict(chosen)
        last = len(self.problem.x_shape) - 1
        return {last if axis == 1 else axis: places for axis, places in chosen.items()}


def _members(groups: Array, each: int) -> Array:
    """Return the channels of groups that have so many."""
    members: Array = (groups[:, None] * each + np.arange(each)).ravel()
    return members


def _some_of(all_of_them: int, count: int) -> Array:
    if all_of_them <= count:
        return np.arange(all_of_them)
    between = np.arange(1, all_of_them - 1)
    drawn = np.random.default_rng().choice(between, count - 2, replace=False)
    return np.array([0, *sorted(drawn), all_of_them - 1])
