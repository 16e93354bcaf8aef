"""Contestants of a comparison: who runs, and how one run is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way to compute one convolution."""

    name: str
    #: The weights were given beforehand and may be kept in any form.
    bound: bool
    #: Run it so many times in a row; returns ms of one.
    time_ms: Callable[[int], float]
    #: Its threads spin for so long after a call, and would take the next contestant's core.
    spin_s: float = 0.02


def host_timer(run: Callable[[], object]) -> Callable[[int], float]:
    """Time a function that returns when the work is done, by the host's clock."""

    def time_ms(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - begin) / calls * 1e3

    return time_ms
