"""`Scale`: where values lie on an axis, and the ticks of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from one place on the page to another, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    is_log: bool = False

    @classmethod
    def linear(cls, high: float, start: float, end: float, suffix: str = "") -> Scale:
        """Return an axis from 0 on, with about six ticks at round numbers."""
        high = high or 1.0
        step = _round_step(high)
        marks = [n * step for n in range(math.floor(high / step + 1e-9) + 1)]
        ticks = tuple((mark, f"{mark:,.12g}{suffix}") for mark in marks)
        return cls(0.0, max(high, marks[-1]), start, end, ticks)

    @classmethod
    def logarithmic(cls, values: Sequence[float], start: float, end: float) -> Scale:
        """Return an axis over values above 0, with ticks at 1, 2, 5 where it is short.

        Where it is shorter than a factor of five, fewer than three of those would be on it: its
        ticks are round numbers at equal distances.
        """
        low, high = min(values) / 1.1, max(values) * 1.1
        if high < 5 * low:
            step = _round_step(high - low)
            first, last = math.ceil(low / step), math.floor(high / step)
            near = [round(n * step, 12) for n in range(first, last + 1)]
            return cls(low, high, start, end, tuple((m, f"{m:,.12g}") for m in near), is_log=True)
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        steps = (1, 2, 5) if high < 1000 * low else (1,)
        marks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = tuple((mark, f"{mark:,.12g}") for mark in marks if low <= mark <= high)
        return cls(low, high, start, end, ticks, is_log=True)

    def at(self, value: float) -> float:
        """Return the place of a value."""
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def _round_step(length: float) -> float:
    """The least round number of which six reach a length."""
    decade = 10.0 ** math.floor(math.log10(length / 6))
    return next(n * decade for n in (1, 2, 5, 10) if n * decade * 6 >= length)
