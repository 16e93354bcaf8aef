"""`Disturbance`: how many samples of a race met other work on the machine, and when that is many.

Other work makes most samples of a candidate slow, and leaves its fastest as it is. So samples are
compared with the fastest of the same candidate: it does not matter how far apart candidates are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

#: A sample so many times as slow as the fastest of its candidate met other work.
SLOW = 1.5
#: Candidates of so many ms at least count: launches of shorter ones scatter by themselves.
_SHORT = 0.1
#: The shares of a race's samples, and of those of the latest races, at which chance may have
#: decided, and the samples that there have to be. How they were chosen: ADR 0052.
_SHARE, _ENOUGH = 0.4, 4
_SHARE_OF_LATEST, _ENOUGH_OF_LATEST = 0.3, 16
#: Races that are the latest ones.
LATEST: Final = 8


class Disturbance(NamedTuple):
    """Samples that were slow, of so many beside the fastest of each candidate."""

    slow: int
    samples: int

    @classmethod
    def of(cls, candidates: Iterable[Sequence[float]]) -> Disturbance:
        """Count in a race: for each candidate the ms of runs that were only timed.

        Checked runs are slow by themselves.
        """
        slow = samples = 0
        for candidate in candidates:
            least = min(candidate, default=0.0)
            if least >= _SHORT:
                samples += len(candidate) - 1
                slow += sum(one > SLOW * least for one in candidate)
        return cls(slow, samples)


def is_disturbed(latest: Sequence[Disturbance]) -> bool:
    """Return whether other work may have decided the last of the latest races.

    A race has few samples: those before it say as well what the machine is doing.
    """
    slow, samples = latest[-1]
    if samples >= _ENOUGH and slow > _SHARE * samples:
        return True
    slow, samples = sum(one.slow for one in latest), sum(one.samples for one in latest)
    return samples >= _ENOUGH_OF_LATEST and slow > _SHARE_OF_LATEST * samples
