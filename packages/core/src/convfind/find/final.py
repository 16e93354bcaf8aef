"""The final of a search: those that are close to the best run in turns until it is settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from convfind.checking.measuring import (
    ALONE_SAMPLES,
    ALONE_WIDTH,
    FINALIST_FACTOR,
    RACE_LOSS,
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
    best = min(trial.median for trial in measured)
    finalists = [
        trial
        for trial in measured
        if trial.measurement and trial.measurement.least <= FINALIST_FACTOR * best
    ]
    if races:
        sampling = replace(sampling, width=ALONE_WIDTH, mean_loss=RACE_LOSS)
    if len(finalists) < 2:
        (winner,) = finalists
        if races and winner.candidate and not budget.is_spent:
            alone = replace(sampling, samples=ALONE_SAMPLES)
            winner.measurement = measure(winner.sample_again, None, alone)
        return
    samples = [trial.sample_again for trial in finalists]
    measurements = measure_finalists(samples, sampling, lambda: budget.is_spent)
    if measurements is None:
        return
    for trial, measurement in zip(finalists, measurements, strict=True):
        trial.measurement = measurement
        logger.info("%s: %s among %d finalists", trial.solver.solver_id, trial, len(finalists))
