"""The final of a search: those that are close to the best run in turns until it is settled."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from convfind.checking.measuring import (
    AHEAD,
    ALONE_SAMPLES,
    FINALIST_FACTOR,
    LOOKS,
    RACE_FACTOR,
    RACE_LOSS,
    RACE_PATIENCE,
    RACE_WORTH,
    Measurement,
    Sampling,
    measure,
    measure_finalists,
)
from convfind.find.budget import Budget
from convfind.find.trial import Trial
from convfind.log import logger


def run_final(trials: Sequence[Trial], sampling: Sampling, budget: Budget, *, races: bool) -> None:
    """Measure those of the trials again that may be the fastest.

    One that is far ahead runs alone, a few times more in a race, whose first round was brief. Who
    is in no final is not recorded as the fastest, however the machine was when it ran.

    Raises:
        FinalistError: one of them fails.
    """
    measured = [trial for trial in trials if trial.measurement]
    finalists = _racing(measured, budget) if races else _close(measured)
    others = [trial for trial in measured if trial not in finalists]
    before = [trial.measured for trial in finalists]
    if races:
        sampling = replace(
            sampling,
            mean_loss=RACE_LOSS,
            worth=RACE_WORTH,
            final_seconds=RACE_PATIENCE * sampling.final_seconds,
        )
        for trial in measured:  # whose few samples count where there is no final
            trial.measurement = trial.measured.undisturbed
    if len(finalists) < 2:
        (winner,) = finalists
        if not (races and winner.candidate and not budget.is_spent):
            return
        alone = replace(sampling, samples=ALONE_SAMPLES)
        winner.measurement = measure(winner.sample_again, None, alone)
    else:
        samples = [trial.sample_again for trial in finalists]
        before_that = [one.least for one in before] if races else ()
        measurements = measure_finalists(samples, sampling, lambda: budget.is_spent, before_that)
        if measurements is None:
            return
        for trial, measurement in zip(finalists, measurements, strict=True):
            trial.measurement = measurement
            logger.info("%s: %s among %d finalists", trial.solver.solver_id, trial, len(finalists))
    if races:
        _follow(others, finalists, before)
    else:
        _slow_down(others, finalists, before)


def _close(trials: Sequence[Trial]) -> list[Trial]:
    """Return those whose fastest sample is close to the best median."""
    best = min(trial.median for trial in trials)
    return [trial for trial in trials if trial.least <= FINALIST_FACTOR * best]


def _racing(trials: Sequence[Trial], budget: Budget) -> list[Trial]:
    """Return those whose fastest sample is close to the fastest: medians of two say less.

    All samples of a trial may have met the same moment in which others used the machine, that of
    the checked run is slow, and a library's first calls load its kernels. So one that is behind
    runs once more, next to the fastest, and again until its samples agree: who is close then is
    one, too.
    """
    best = min(trials, key=lambda trial: trial.least)
    found = [trial for trial in trials if trial.least <= RACE_FACTOR * best.least]
    doubtful = [trial for trial in trials if trial not in found and trial.candidate]
    for _ in range(LOOKS):
        if not (doubtful and best.candidate) or budget.is_spent:
            break
        mark = RACE_FACTOR * best.sample_once_more()
        close = [trial for trial in doubtful if trial.sample_once_more() <= mark]
        found += close
        doubtful = [one for one in doubtful if one not in close and not one.is_believed]
    return found


def _slow_down(
    others: Sequence[Trial], finalists: Sequence[Trial], before: Sequence[Measurement]
) -> None:
    """Scale the times of who was in no final where the machine has become slower since."""
    pairs = zip(finalists, before, strict=True)
    factor = statistics.median(
        trial.median / one.median if one.median > 0 else 1.0 for trial, one in pairs
    )
    for trial in others if factor > 1.0 else ():
        trial.measurement = trial.measured.scaled(factor)


def _follow(
    others: Sequence[Trial], finalists: Sequence[Trial], before: Sequence[Measurement]
) -> None:
    """Scale the times of who was in no final of a race by the winner's, as far as it is behind.

    That is what their fastest samples say: of so few, another says more of the machine.
    """
    winner = min(finalists, key=lambda trial: trial.median)
    fastest = min(before[finalists.index(winner)].least, *winner.timed)
    for trial in others:
        if fastest > 0.0:
            behind = max(AHEAD, trial.least / fastest)
            trial.measurement = trial.measured.scaled(behind * winner.median / trial.median)
