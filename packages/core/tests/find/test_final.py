"""The final of a search, and what becomes of the times of who is in none."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest

from convfind.checking.measuring import USUAL, Measurement
from convfind.find.budget import Budget
from convfind.find.final import run_final
from convfind.find.trial import Trial
from convfind.testing.solvers import MockDynamic


class Runner:
    """Takes so many milliseconds from now on."""

    def __init__(self, time_ms: float) -> None:
        self._time_ms = time_ms

    def sample(self) -> float:
        return self._time_ms


def trial(before: float, now: float) -> Trial:
    recipe: Any = None
    measurement = Measurement((before, before, before))
    runner: Any = Runner(now)
    return Trial(MockDynamic(), recipe, candidate=runner, measurement=measurement)


@pytest.mark.parametrize("races", [True, False])
def test_who_ran_before_the_machine_became_slower_is_not_the_fastest_for_it(races: bool) -> None:
    first, second, behind = trial(1.0, 2.0), trial(1.1, 2.2), trial(1.5, 3.0)
    run_final([first, second, behind], USUAL, Budget(None), races=races)
    assert [one.median for one in (first, second, behind)] == pytest.approx([2.0, 2.2, 3.0])
    assert min((first, second, behind), key=lambda one: one.median) is first


def test_the_time_of_who_is_behind_the_only_finalist_follows_it() -> None:
    first, behind = trial(1.0, 2.0), trial(1.5, 3.0)
    run_final([first, behind], USUAL, Budget(None), races=True)
    assert (first.median, behind.median) == (2.0, 3.0)


def test_on_a_machine_that_became_faster_who_is_behind_is_timed_again() -> None:
    first, second, behind = trial(1.0, 0.5), trial(1.1, 0.55), trial(1.5, 0.75)
    run_final([first, second, behind], USUAL, Budget(None), races=True)
    assert behind.median == 0.75


def test_in_a_race_who_is_close_by_the_fastest_samples_is_a_finalist() -> None:
    first, lucky = trial(1.0, 1.0), trial(1.3, 0.9)
    lucky.measurement = Measurement((1.9, 1.19, 1.8))
    run_final([first, lucky], USUAL, Budget(None), races=True)
    assert lucky.median == pytest.approx(0.9)


@pytest.mark.parametrize(("now", "found"), [(0.9, 0.9), (1.6, 1.6)])
@pytest.mark.parametrize("samples", [3, 2])
def test_who_seems_slow_runs_once_more_next_to_the_fastest(
    now: float, found: float, samples: int
) -> None:
    first, disturbed = trial(1.0, 1.0), trial(1.7, now)
    disturbed.measurement = Measurement((1.7,) * samples)
    run_final([first, disturbed], USUAL, Budget(None), races=True)
    assert disturbed.median == pytest.approx(found)


def test_the_samples_next_to_the_fastest_count_with_the_others() -> None:
    first, slow = trial(1.0, 1.0), trial(2.0, 1.5)
    slow.measurement = Measurement((2.0, 2.2), abandoned=True)
    run_final([first, slow], USUAL, Budget(None), races=True)
    assert len(slow.measured.samples) == 4
    assert slow.median == pytest.approx(1.5)


def test_who_met_other_work_in_all_samples_runs_until_they_agree() -> None:
    first, disturbed = trial(1.0, 1.0), trial(20.0, 0.9)
    disturbed.measurement = Measurement((20.0, 8.0))
    run_final([first, disturbed], USUAL, Budget(None), races=True)
    assert min((first, disturbed), key=lambda one: one.median) is disturbed
    assert disturbed.median == 0.9


def test_samples_that_met_other_work_are_not_recorded_of_who_is_in_no_final() -> None:
    first, loser = trial(1.0, 1.0), trial(3.0, 3.0)
    loser.measurement = Measurement((93.0, 3.0))
    run_final([first, loser], USUAL, Budget(None), races=True)
    assert loser.median == 3.0


class Noisy:
    """Takes these milliseconds, one after the other, again and again."""

    def __init__(self, *times: float) -> None:
        self._times = itertools.cycle(times)

    def sample(self) -> float:
        return next(self._times)


def test_one_lucky_sample_does_not_win_against_a_final() -> None:
    first, second, lucky = trial(1.0, 1.0), trial(1.1, 1.1), trial(9.0, 9.0)
    first.candidate, second.candidate = cast("Any", Noisy(2.0, 2.1)), cast("Any", Noisy(2.2, 2.3))
    lucky.measurement = Measurement((9.0, 1.5))
    lucky.candidate = cast("Any", Noisy(9.0, 7.0, 5.0, 3.0))
    run_final([first, second, lucky], USUAL, Budget(None), races=True)
    assert min((first, second, lucky), key=lambda one: one.median) is first
    assert lucky.median == pytest.approx(1.5 * first.median)


def test_who_is_behind_in_samples_that_agree_runs_once_more() -> None:
    first, behind = trial(1.0, 1.0), trial(2.6, 2.6)
    run_final([first, behind], USUAL, Budget(None), races=True)
    assert behind.median == pytest.approx(2.6)
    assert len(behind.measured.samples) == 4
