"""`SolidGeometry`: a convolution as the kernels of the family see it, in three spatial axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from convfind.kit.blocks import Geometry
from convfind.problem import ConvProblem


class SolidGeometry(Geometry):
    """A convolution whose steps that are never taken are 1.

    So there are no phases of nothing, and no numbers that do not fit.
    """

    __slots__ = ()

    @classmethod
    def of(cls, problem: ConvProblem, axes: int = 3, **more: Any) -> Self:
        """Return the geometry of a plain, packed problem of one layout."""
        found = super().of(problem, axes, **more)
        places = found.size if found.is_gradient else found.out
        steps = zip(found.stride, places, strict=True)
        return replace(found, stride=tuple(step if size > 1 else 1 for step, size in steps))

    @property
    def is_pointwise(self) -> bool:
        """True where each result depends on the source at its own place only."""
        return (
            self.taps == 1
            and self.size == self.out
            and not any(self.padding)
            and max(self.stride) == 1
        )
