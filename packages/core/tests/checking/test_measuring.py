"""Finals: candidates that are close to each other, measured in turns."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from convfind.checking.measuring import (
    RACE_LOSS,
    RACE_WORTH,
    Measurement,
    Sampling,
    measure_finalists,
)

PATIENT = Sampling(samples=60, seconds=0.0, final_seconds=60.0)
RACING = replace(PATIENT, mean_loss=RACE_LOSS, worth=RACE_WORTH)


def settled(finalists: list[Callable[[], float]], sampling: Sampling) -> list[Measurement]:
    """What a final measures that nobody ends."""
    found = measure_finalists(finalists, sampling)
    assert found is not None
    return found


def machine(drift: Iterator[float], *times: float) -> list[Callable[[], float]]:
    """Candidates on a machine whose speed changes with each sample."""

    def candidate(time: float) -> Callable[[], float]:
        return lambda: time * next(drift)

    return [candidate(time) for time in times]


def test_drift_is_taken_out_of_the_samples() -> None:
    slower_and_slower = (1.0 + 0.004 * number for number in itertools.count())
    found = settled(machine(slower_and_slower, 1.05, 1.0, 1.2), PATIENT)
    medians = [measurement.median for measurement in found]
    assert [median / medians[1] for median in medians] == pytest.approx([1.05, 1.0, 1.2], rel=5e-3)
    assert found[1].spread < 5e-3


def test_rounds_end_where_the_winner_is_settled() -> None:
    found = settled(machine(itertools.repeat(1.0), 1.1, 1.0, 1.2), PATIENT)
    assert [len(measurement.samples) for measurement in found] == [8, 8, 8]


def test_rounds_go_on_while_candidates_take_turns_in_winning() -> None:
    shaking = itertools.cycle([1.0, 1.1, 1.1, 1.0])
    found = settled(machine(shaking, 1.0, 1.001), PATIENT)
    assert len(found[0].samples) == PATIENT.samples


def test_rounds_end_where_candidates_are_as_fast_as_each_other() -> None:
    found = settled(machine(itertools.repeat(1.0), 1.0, 1.005), PATIENT)
    assert len(found[0].samples) == 7


@pytest.mark.parametrize("slower", [1.02, 1.05])
def test_one_final_in_twenty_at_most_is_won_by_who_loses_more_than_one_percent(
    slower: float,
) -> None:
    generator = random.Random(20)
    endless = Sampling(samples=2000, seconds=0.0, final_seconds=60.0)
    wrong = 0
    for _ in range(200):
        noise = (1.0 + 0.03 * generator.random() for _ in itertools.count())
        fast, slow = settled(machine(noise, 1.0, slower), endless)
        wrong += slow.median < fast.median
    assert wrong <= 10


@pytest.mark.parametrize("slower", [1.0, 1.01, 1.03, 1.1])
@pytest.mark.parametrize(("spread", "loss", "most"), [(0.03, 0.003, 9), (0.1, 0.008, 14)])
def test_in_a_race_rounds_end_where_another_one_saves_too_little(
    slower: float, spread: float, loss: float, most: int
) -> None:
    generator = random.Random(7)
    lost = rounds = 0.0
    for _ in range(200):
        noise = (math.exp(generator.gauss(0.0, spread)) for _ in itertools.count())
        fast, slow = settled(machine(noise, 1.0, slower), RACING)
        lost += (slower - 1.0) * (slow.median < fast.median) / 200
        rounds += len(fast.samples) / 200
    assert lost <= loss
    assert rounds <= most


def test_in_a_race_who_has_lost_runs_no_more_rounds() -> None:
    generator = random.Random(3)
    lost = 0.0
    runs = [0, 0, 0, 0]
    for _ in range(200):
        noise = (math.exp(generator.gauss(0.0, 0.03)) for _ in itertools.count())
        found = settled(machine(noise, 1.0, 1.01, 1.25, 1.35), RACING)
        best = min(range(4), key=lambda place: found[place].median)
        lost += (0.0, 0.01, 0.25, 0.35)[best] / 200
        for place, measurement in enumerate(found):
            runs[place] += len(measurement.samples)
    assert lost <= 0.003
    assert max(runs[2:]) <= 4 * 200, "they are out after three rounds, or four"
    assert min(runs[:2]) >= 6 * 200, "these are close"
    assert min(len(measurement.samples) for measurement in found) >= 3


def test_the_time_of_who_is_left_alone_keeps_its_noise() -> None:
    shaking = itertools.cycle([1.0, 1.0, 1.1, 1.1])
    far, near = settled(machine(shaking, 2.0, 1.0), RACING)
    assert (len(far.samples), len(near.samples)) == (3, 5)
    assert near.spread > 0.05
    assert far.median / near.median == pytest.approx(2.0, rel=0.1)


def test_in_a_race_of_equals_drift_is_taken_out_though_others_are_out() -> None:
    slower_and_slower = (1.0 + 0.004 * number for number in itertools.count())
    found = settled(machine(slower_and_slower, 1.02, 1.0, 1.5), RACING)
    assert len(found[2].samples) == 3
    assert found[1].spread < 5e-3
    assert found[2].median / found[1].median == pytest.approx(1.5, rel=0.02)


def test_who_is_out_does_not_win_by_rounds_in_which_another_was_slow() -> None:
    def candidate(*times: float) -> Callable[[], float]:
        samples = itertools.chain(times[:-1], itertools.repeat(times[-1]))
        return lambda: next(samples)

    finalists = [candidate(1.2), candidate(1.0), candidate(1.0, 1.45, 1.45, 1.0)]
    out, best, other = settled(finalists, RACING)
    assert len(out.samples) == 3
    assert (out.median, best.median) == pytest.approx((1.2, 1.0))
    assert best.median < other.median


def test_samples_that_meet_other_work_are_taken_again() -> None:
    finalists = [machine(itertools.cycle([1.0, 5.0, 9.0]), time)[0] for time in (1.0, 1.1)]
    found = settled(finalists, PATIENT)
    assert [one.median for one in found] == pytest.approx([1.0, 1.1])
    assert [one.spread for one in found] == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize("before", [(1.0, 1.02), (2.0, 1.02)])
def test_the_fastest_samples_before_a_final_count_like_a_round(
    before: tuple[float, float],
) -> None:
    alike = itertools.repeat(1.0)
    found = measure_finalists(machine(alike, 1.0, 1.02), RACING, before=before)
    assert found is not None
    assert [one.samples for one in found] == [(1.0,) * 4, (1.02,) * 4]
    assert len(settled(machine(alike, 1.0, 1.02), RACING)[0].samples) == 5


def test_time_ends_the_rounds() -> None:
    hasty = Sampling(samples=60, seconds=0.0, final_seconds=0.0)
    found = settled(machine(itertools.repeat(1.0), 1.0, 1.1), hasty)
    assert len(found[0].samples) == 5


def test_an_interruption_changes_nothing() -> None:
    interrupted = itertools.chain([1.0] * 7, [40.0], itertools.repeat(1.0))
    found = settled(machine(interrupted, 1.0, 1.02), PATIENT)
    assert [measurement.median for measurement in found] == pytest.approx([1.0, 1.02])


def test_a_final_that_ends_too_early_leaves_the_earlier_samples() -> None:
    rounds = itertools.count()
    finalists = machine(itertools.repeat(1.0), 1.0, 1.1)
    assert measure_finalists(finalists, PATIENT, lambda: next(rounds) >= 4) is None
    rounds = itertools.count()
    found = measure_finalists(finalists, PATIENT, lambda: next(rounds) >= 5)
    assert found is not None
    assert [len(measurement.samples) for measurement in found] == [5, 5]


def test_three_samples_have_a_spread() -> None:
    assert Measurement((1.0, 2.0, 4.0)).spread == 3.0
    assert Measurement((1.0, 4.0)).spread == 0.0
