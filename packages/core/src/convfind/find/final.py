"""The final of a search: those that are close to the best run in turns until it is settled."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from convfind.checking.measuring import (
    ALONE_SAMPLES,
    DOUBT_FACTOR,
    FINALIST_FACTOR,
    RACE_FACTOR,
    RACE_LOSS,
    RACE_PATIENCE,
    Sampling,
    measure,
    measure_finalists,
)
from convfind.find.budget import Budget
from convfind.find.trial import Trial
from convfind.log import logger


def run_final(trials: Sequence[Trial], sampling: Sampling, budget: Budget, *, races: bool) -> None:
    """Measure those of the trials again that may be the fastest.

    One that is far ahead runs alone, a few times more in a race, whose first round was brief.

    Raises:
        FinalistError: one of them fails.
    """
    measured = [trial for trial in trials if trial.measurement]
    finalists = _racing(measured, budget) if races else _close(measured)
    if races:
        sampling = replace(
            sampling,
            mean_loss=RACE_LOSS,
            final_seconds=RACE_PATIENCE * sampling.final_seconds,
        )
    before = [trial.median for trial in finalists]
    if len(finalists) < 2:
        (winner,) = finalists
        if not (races and winner.candidate and not budget.is_spent):
            return
        alone = replace(sampling, samples=ALONE_SAMPLES)
        winner.measurement = measure(winner.sample_again, None, alone)
    else:
        samples = [trial.sample_again for trial in finalists]
        before_that = [trial.least for trial in finalists] if races else ()
        measurements = measure_finalists(samples, sampling, lambda: budget.is_spent, before_that)
        if measurements is None:
            return
        for trial, measurement in zip(finalists, measurements, strict=True):
            trial.measurement = measurement
            logger.info("%s: %s among %d finalists", trial.solver.solver_id, trial, len(finalists))
    _slow_down([trial for trial in measured if trial not in finalists], finalists, before)


def _close(trials: Sequence[Trial]) -> list[Trial]:
    """Return those whose fastest sample is close to the best median."""
    best = min(trial.median for trial in trials)
    return [trial for trial in trials if trial.least <= FINALIST_FACTOR * best]


def _racing(trials: Sequence[Trial], budget: Budget) -> list[Trial]:
    """Return those whose fastest sample is close to the fastest: medians of two say less.

    All samples of a trial may have met the same moment in which others used the machine, and that
    of the checked run is slow. So one that is not too far behind runs once more, next to the
    fastest: who is close then is one, too.
    """
    best = min(trials, key=lambda trial: trial.least)
    found = [trial for trial in trials if trial.least <= RACE_FACTOR * best.least]
    doubtful = [
        trial
        for trial in trials
        if trial not in found and trial.candidate and trial.least <= DOUBT_FACTOR * best.least
    ]
    if doubtful and best.candidate and not budget.is_spent:
        mark = RACE_FACTOR * best.sample_once_more()
        found += [trial for trial in doubtful if trial.sample_once_more() <= mark]
    return found


def _slow_down(
    others: Sequence[Trial], finalists: Sequence[Trial], before: Sequence[float]
) -> None:
    """Scale the times of who was in no final where the machine has become slower since.

    Else the fastest of them could seem faster than the winner.
    """
    pairs = zip(finalists, before, strict=True)
    factor = statistics.median(trial.median / time if time > 0 else 1.0 for trial, time in pairs)
    for trial in others if factor > 1.0 else ():
        assert trial.measurement is not None
        trial.measurement = trial.measurement.scaled(factor)
