"""`Forecast`: how long a solver may take, and `Source`: who says so of several.

A source knows the times of some solvers with an error of its own, and most know them only in
comparison with each other: what matters in a race is how far behind the leader a solver will be.
The errors are standard deviations of the logarithm of such ratios.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

#: The source whose word is each solver's own.
INDEX: Final = "index"
#: The sources that say what is right on another device.
SIBLINGS: Final = ("record of a related device", "model of a related device")


class Forecast(NamedTuple):
    """An expected time, whose ratio to others of the same problem may be off by ``error``."""

    time_ms: float
    error: float
    source: str

    @property
    def is_foreign(self) -> bool:
        """True where another device is behind it, or the solver's own word."""
        return self.source in (INDEX, *SIBLINGS)


class Source(NamedTuple):
    """Times of some solvers by id, on a scale of their own, and the error of their ratios."""

    name: str
    error: float
    times: Mapping[str, float]
