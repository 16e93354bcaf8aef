"""Timing a candidate: warm-up, samples of device time, median and spread, early abandonment."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: A candidate whose first sample is over this multiple of the best median is abandoned.
ABANDON_FACTOR = 3.0
#: Candidates whose fastest sample is within this factor of the best median are measured again,
#: interleaved, before one wins.
FINALIST_FACTOR = 1.3

_MIN_SAMPLES = 3
_MIN_ROUNDS = 5  # however long they take
_ROUNDS_TO_SETTLE = 12
#: The winner is settled once it is faster than each other finalist in this share of the rounds.
_SETTLED = 0.85

Sample = Callable[[], float]  # runs once and returns ms


@dataclass(frozen=True, slots=True)
class Sampling:
    """How long to go on once the least number of samples is there.

    Attributes:
        samples: of one candidate at most, and rounds among all finalists.
        seconds: for one candidate.
        final_seconds: for all rounds.
    """

    samples: int
    seconds: float
    final_seconds: float


USUAL = Sampling(samples=60, seconds=0.15, final_seconds=0.3)
#: Enough to see who is close to the best; the others race no further.
FIRST_ROUND = Sampling(samples=3, seconds=0.0, final_seconds=0.0)
QUICK = Sampling(samples=24, seconds=0.04, final_seconds=0.1)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Samples of one candidate's device time in ms."""

    samples: tuple[float, ...]
    abandoned: bool = False

    @property
    def median(self) -> float:
        """The time that counts."""
        return statistics.median(self.samples)

    @property
    def least(self) -> float:
        """The fastest sample in ms: what the machine does meanwhile only makes samples slower."""
        return min(self.samples)

    @property
    def spread(self) -> float:
        """Interquartile range in ms; 0 with fewer than three samples."""
        if len(self.samples) < 3:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4)
        return high - low


def measure(sample: Sample, best: float | None, sampling: Sampling) -> Measurement:
    """Take samples until there are enough, or two if both are far behind ``best`` ms.

    The caller has run the candidate at least once before, so that caches and clocks are warm.
    """
    samples = [sample()]
    if best is not None and samples[0] > ABANDON_FACTOR * best:
        # A single slow sample may be the machine's fault: only two in a row condemn.
        samples.append(sample())
        if min(samples) > ABANDON_FACTOR * best:
            return Measurement(tuple(samples), abandoned=True)
    deadline = time.perf_counter() + sampling.seconds
    while len(samples) < _MIN_SAMPLES or (
        len(samples) < sampling.samples and time.perf_counter() < deadline
    ):
        samples.append(sample())
    return Measurement(tuple(samples))


def measure_finalists(
    finalists: Sequence[Sample], sampling: Sampling, is_over: Callable[[], bool] = lambda: False
) -> list[Measurement] | None:
    """Measure the front runners again in turns, until it is settled which is the fastest.

    What drifts on the machine hits all samples of a round alike. It is taken out of them: each
    sample counts relative to the mean of its round. The samples replace the earlier ones.

    Returns:
        None where it ``is_over`` before there are rounds enough: then the earlier samples count.
    """
    rounds: list[list[float]] = []
    deadline = time.perf_counter() + sampling.final_seconds
    while len(rounds) < sampling.samples:
        if is_over():
            break
        if len(rounds) >= _MIN_ROUNDS and time.perf_counter() > deadline:
            break
        if len(rounds) >= _ROUNDS_TO_SETTLE and _is_settled(rounds):
            break
        rounds.append([sample() for sample in finalists])
    if len(rounds) < _MIN_ROUNDS:
        return None
    return [Measurement(samples) for samples in _without_drift(rounds)]


def _without_drift(rounds: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    """Samples of each finalist as if all rounds were as fast as the typical one."""
    means = [statistics.fmean(samples) for samples in rounds]
    typical = statistics.median(means)
    scales = [typical / mean if mean > 0 else 1.0 for mean in means]
    return [
        tuple(sample * scale for sample, scale in zip(samples, scales, strict=True))
        for samples in zip(*rounds, strict=True)
    ]


def _is_settled(rounds: Sequence[Sequence[float]]) -> bool:
    medians = [statistics.median(samples) for samples in _without_drift(rounds)]
    best = medians.index(min(medians))
    return all(
        sum(samples[best] < samples[other] for samples in rounds) >= _SETTLED * len(rounds)
        for other in range(len(medians))
        if other != best
    )
