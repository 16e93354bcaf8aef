"""`Within`: the place of a value that lies in the memory of a larger one."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Within:
    """Where a value lies in a larger one.

    Attributes:
        whole: the larger one.
        start: elements of the whole before the first of the value.
        strides: the whole's, in elements, which are the value's, too.
    """

    whole: str
    start: int
    strides: tuple[int, ...]

    def inside(self, outer: Within | None) -> Within:
        """Return the same place in what the whole itself lies in, if it does."""
        return self if outer is None else replace(outer, start=outer.start + self.start)
