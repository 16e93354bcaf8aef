"""How good a measurement is as evidence, and which of two records of one solver stays.

Other work on a machine only makes samples slower, and shows in their spread. So a record gives
way only to evidence as good as its own, or to a time that is faster beyond doubt; a measurement on
a busy machine changes nothing about a quiet one. Which solver is fastest is in doubt after a race
whose samples show other work, until another one has measured it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convfind.finddb.record import FindEntry, FindRecord

#: A measurement is noisy where its spread exceeds this share of its time.
NOISY = 0.25

_FEWEST_SAMPLES = 3  # with fewer a candidate was given up, and nobody knows its spread


def is_noisy(time_ms: float, spread_ms: float) -> bool:
    """True where the middle half of the samples spans more than a quarter of their median."""
    return spread_ms > NOISY * time_ms


def noise(record: FindRecord) -> float:
    """Spread of a record over its time, not below `NOISY`; infinite where nobody knows it.

    Below that limit measurements are equally good.
    """
    if record.samples < _FEWEST_SAMPLES or record.time_ms <= 0:
        return math.inf
    return max(record.spread_ms / record.time_ms, NOISY)


def assumed_spread(time_ms: float, spread_ms: float, samples: int) -> float:
    """Spread of a measurement: of too few samples to have one, that of a noisy measurement."""
    return NOISY * time_ms if samples < _FEWEST_SAMPLES else spread_ms


def in_doubt(name: str) -> str:
    """Return how a list of considered solvers names one whose times other work may have made.

    No search has decided about it, until one lists it by its plain name.
    """
    return f"{name}?"


def doubtful(entry: FindEntry) -> frozenset[str]:
    """Return the versioned ids of the solvers in an entry that were measured beside other work."""
    marked = {name[:-1] for name in entry.considered if name[-1:] == "?"}
    return frozenset(marked.difference(entry.considered))


def supersedes(new: FindRecord, old: FindRecord, *, tuned_again: bool = False) -> bool:
    """Say whether a later record takes the place of one of the same solver.

    It does where another driver or other kernels made the old one void, where it is faster by more
    than both spreads, of which one that nobody knows is that of a noisy record, and where it is no
    noisier. In that last case a slower time of another config counts only if a new search chose it
    (``tuned_again``): else the old config is still better.
    """
    if (new.driver, new.source_hash) != (old.driver, old.source_hash):
        return True
    if new.time_ms + _spread(new) < old.time_ms - _spread(old):
        return True
    if noise(new) > noise(old):
        return False
    return tuned_again or new.config == old.config or new.time_ms < old.time_ms


def _spread(record: FindRecord) -> float:
    return assumed_spread(record.time_ms, record.spread_ms, record.samples)
