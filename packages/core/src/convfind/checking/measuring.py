"""Timing a candidate: warm-up, samples of device time, median and spread, early abandonment.

How many samples are taken follows from what they say: a final is settled once its winner loses no
more than 1 % at 95 %, or in a race once another run would save too little on average. Counts and
seconds only bound that.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from convfind.runtime.disturbance import SLOW

#: A candidate whose first sample is over this multiple of the best median is abandoned.
ABANDON_FACTOR = 3.0
#: Candidates whose fastest sample is within this factor of the best median are measured again,
#: interleaved, before one wins.
FINALIST_FACTOR = 1.3
#: The same in a race, of the fastest sample of all.
RACE_FACTOR = 1.2
#: How often at most those whose times are in doubt run once more before a final.
LOOKS = 4
#: The second fastest sample is so many times as slow as the fastest at most, where they agree.
_ALIKE = 1.15
#: How often a sample of a final that met other work is taken again.
_AGAIN = 2
#: Who wins a final is ahead of all others by this factor, at least, in the times recorded.
AHEAD = 1.001

_MIN_SAMPLES = 3
_MIN_ROUNDS = 5  # however long they take
#: Rounds before a finalist is out, and how far behind it is in each before there are `_MIN_ROUNDS`.
_LEAST_ROUNDS, _CLEARLY = 3, math.log(1.05)
#: The loss of a final, as a share of the fastest finalist's time, except with this probability.
_LOSS, _DOUBT = 0.01, 0.05

_NORMAL = NormalDist()
#: Standard error of a median of normal values, times the root of their number, over their
#: interquartile range.
_MEDIAN_ERROR = math.sqrt(math.pi / 2) / (2 * _NORMAL.inv_cdf(0.75))

Sample = Callable[[], float]  # runs once and returns ms
#: Samples in ms by the places of finalists, of those that ran.
Round = dict[int, float]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How long to go on at most, once the least number of samples is there.

    Attributes:
        samples: of one candidate at most, and rounds among all finalists.
        seconds: for one candidate.
        final_seconds: for all rounds.
        mean_loss: what the winner may lose on average, as a share of the fastest finalist's time,
            to those who are out early.
        worth: what a run has to save on average, as such a share, for there to be another round;
            with 0 rounds end where little is lost almost surely.
    """

    samples: int
    seconds: float
    final_seconds: float
    mean_loss: float = 0.0
    worth: float = 0.0


USUAL = Sampling(samples=60, seconds=0.15, final_seconds=0.3)
#: Enough for a race's only finalist: nobody's time is compared with its own, ...
ALONE_SAMPLES = 3
#: ... and for several: a network's layers are won by so many finals that only the mean counts. How
#: they were chosen: ADR 0062.
RACE_LOSS, RACE_WORTH = 0.0025, 1e-4
#: Times the seconds that rounds have elsewhere: what easy finals leave, hard ones get.
RACE_PATIENCE = 2.0
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
    def is_believed(self) -> bool:
        """True where the two fastest samples agree: other work makes none faster, nor two alike."""
        least, *others = sorted(self.samples)
        return bool(others) and others[0] <= _ALIKE * least

    @property
    def undisturbed(self) -> Measurement:
        """The samples without those that met other work."""
        kept = tuple(one for one in self.samples if one <= SLOW * self.least)
        return Measurement(kept, self.abandoned)

    @property
    def spread(self) -> float:
        """Interquartile range in ms; 0 with fewer than three samples."""
        if len(self.samples) < 3:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4)
        return high - low

    def scaled(self, factor: float) -> Measurement:
        """Return the samples that a machine would have given that is slower by a factor."""
        return Measurement(tuple(factor * one for one in self.samples), self.abandoned)


def measure(sample: Sample, best: float | None, sampling: Sampling) -> Measurement:
    """Take samples until there are enough, or two if both are far behind ``best`` ms.

    The caller has run the candidate at least once before, so that caches and clocks are warm.
    """
    samples = [sample()]
    if best is not None and samples[0] > ABANDON_FACTOR * best:
        # A single slow sample may be the machine's fault: only two in a row condemn.
        samples.append(sample())
        if min(samples) > ABANDON_FACTOR * best:
            return Measurement(tuple(samples), abandoned=True).undisturbed
    deadline = time.perf_counter() + sampling.seconds
    while len(samples) < _MIN_SAMPLES or (
        len(samples) < sampling.samples and time.perf_counter() < deadline
    ):
        samples.append(sample())
    return Measurement(tuple(samples))


def measure_finalists(
    finalists: Sequence[Sample],
    sampling: Sampling,
    is_over: Callable[[], bool] = lambda: False,
    before: Sequence[float] = (),
) -> list[Measurement] | None:
    """Measure the front runners again in turns, until it is settled who loses next to nothing.

    Where several are as fast as each other, that is settled as soon as where one is the fastest.
    Where only the mean counts, who has lost to the leader runs no more rounds, and there are no
    more of them than their runs are worth. A sample that
    met other work is taken again. A drift of the machine hits all samples of a round alike. It is
    taken out of them: each sample counts relative to the mean of its round. The samples replace the
    earlier ones. How far the others are behind the winner is what rounds say that both ran.

    Args:
        finalists: what runs each of them once.
        sampling: how long to go on.
        is_over: whether to end at once.
        before: the fastest sample of each before the final, which decides like one more round.

    Returns:
        None where it ``is_over`` before there are rounds enough: then the earlier samples count.
    """
    rounds: list[Round] = [dict(enumerate(before))] if before else []
    racing = list(range(len(finalists)))
    deadline = time.perf_counter() + sampling.final_seconds
    while len(rounds) < sampling.samples:
        if is_over():
            break
        if len(rounds) >= _MIN_ROUNDS and time.perf_counter() > deadline:
            break
        if len(rounds) >= _MIN_ROUNDS and _is_settled(rounds, racing, sampling.worth):
            break
        if sampling.mean_loss and len(rounds) >= _LEAST_ROUNDS:
            share = sampling.mean_loss / (len(finalists) - 1)
            for one in _beaten(rounds, racing, share):
                racing.remove(one)
        rounds.append({one: _undisturbed(finalists[one], rounds, one) for one in racing})
    if len(rounds) < _MIN_ROUNDS:
        return None
    own = rounds[1:] if before else rounds
    found = [Measurement(samples) for samples in _without_drift(own, racing, len(finalists))]
    return _behind(found, own, _leader(own, racing))


def _undisturbed(sample: Sample, rounds: Sequence[Round], one: int) -> float:
    """Take a sample; again, a few times, where it met other work. Return the fastest."""
    least = min((samples[one] for samples in rounds), default=math.inf)
    took = sample()
    for _ in range(_AGAIN):
        if took <= SLOW * least:
            break
        took = min(took, sample())
    return took


def _behind(found: list[Measurement], rounds: Sequence[Round], best: int) -> list[Measurement]:
    """Scale the times of the others to that of the winner, who is the fastest of them.

    Who ran in a few rounds only may have met other moments than the others.
    """

    def behind(one: int) -> float:
        both = [samples[one] / samples[best] for samples in rounds if one in samples]
        return max(AHEAD, statistics.median(both)) * found[best].median / found[one].median

    if min(measurement.least for measurement in found) <= 0.0:
        return found
    return [
        measurement if one == best else measurement.scaled(behind(one))
        for one, measurement in enumerate(found)
    ]


def expected_saving(behind: float, error: float) -> float:
    """Return the share of the leader's time that trying another one, too, saves on average.

    Args:
        behind: logarithm of the ratio of their expected times.
        error: standard deviation of that.
    """
    z = behind / error
    return error * (_NORMAL.pdf(z) - z * _NORMAL.cdf(-z))


def _without_drift(
    rounds: Sequence[Round], racing: Sequence[int], finalists: int
) -> list[tuple[float, ...]]:
    """Samples of each finalist as if all rounds were as fast as the typical one.

    How fast a round was those say that run in all of them, who are still ``racing``; one of them
    alone cannot be told from the machine.
    """
    if len(racing) < 2:
        return [tuple(row[one] for row in rounds if one in row) for one in range(finalists)]
    means = [statistics.fmean(samples[one] for one in racing) for samples in rounds]
    typical = statistics.median(means)
    scales = [typical / mean if mean > 0 else 1.0 for mean in means]
    return [
        tuple(
            samples[one] * scale
            for samples, scale in zip(rounds, scales, strict=True)
            if one in samples
        )
        for one in range(finalists)
    ]


def _leader(rounds: Sequence[Round], racing: Sequence[int]) -> int:
    """Return the fastest so far of those that are racing."""
    samples = _without_drift(rounds, racing, max(racing) + 1)
    return min(racing, key=lambda one: statistics.median(samples[one]))


def _beaten(rounds: Sequence[Round], racing: Sequence[int], share: float) -> list[int]:
    """Return who is out: the leader loses a share to each at most, on average.

    After few rounds the quartiles may lie: then it was behind by `_CLEARLY` in each of them, too.
    """
    if min(sample for samples in rounds for sample in samples.values()) <= 0.0:
        return []
    best = _leader(rounds, racing)
    found = []
    for one in racing:
        ahead = _ahead(rounds, best, one)
        is_clear = len(rounds) >= _MIN_ROUNDS or min(ahead) >= _CLEARLY
        if one != best and is_clear and _expected_loss(ahead) <= share:
            found.append(one)
    return found


def _ahead(rounds: Sequence[Round], best: int, other: int) -> list[float]:
    return [math.log(samples[other] / samples[best]) for samples in rounds]


def _is_settled(rounds: Sequence[Round], racing: Sequence[int], worth: float) -> bool:
    """Return whether the fastest so far loses no more than `_LOSS`, or no run is worth so much.

    Among equals, what is lost on average falls with the root of the rounds: another round of n
    spares a share of 1 / 2n of it.
    """
    best = _leader(rounds, racing)
    others = [other for other in racing if other != best]
    counts = worth > 0.0 and min(min(samples.values()) for samples in rounds) > 0.0
    ahead = (_ahead(rounds, best, other) for other in others)
    runs = 2 * len(rounds) * len(racing)
    if counts and math.fsum(map(_expected_loss, ahead)) <= worth * runs:
        return True
    enough = len(others) / _DOUBT
    return all(
        _odds(sum(samples[best] <= (1 + _LOSS) * samples[other] for samples in rounds), len(rounds))
        >= enough
        for other in others
    )


def _expected_loss(ahead: Sequence[float]) -> float:
    """The average loss to a candidate by which the winner is ahead by so much in each round.

    Args:
        ahead: logarithms of quotients of their times. Their median is taken for normally
            distributed about the true one. Its error follows from the quartiles, which say little
            of few rounds: it counts a part more.
    """
    low, middle, high = statistics.quantiles(ahead, n=4, method="inclusive")
    count = len(ahead)
    error = _MEDIAN_ERROR * (high - low) / math.sqrt(count) * (1 + 3 / count)
    if not error:
        return max(0.0, -middle)
    return expected_saving(middle, error)


def _odds(wins: int, rounds: int) -> float:
    """The winnings of a bettor who staked 1 on more than every other round being won.

    A bettor against even chances reaches a multiple m with a probability of 1/m, however often one
    looks. The stakes are those of all shares from 1/2 to 1 alike, whose integral is this quotient.
    """
    below = sum(math.comb(rounds + 1, count) for count in range(wins + 1))
    return below / ((rounds + 1) * math.comb(rounds, wins))
