"""Lessons: forecasts that err alike from problem to problem, and what is left of their errors."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

from convfind.find.forecast import INDEX, SIBLINGS, Forecast
from convfind.find.lessons import corrected, learn, well_known
from convfind.problem import ConvProblem
from convfind.runtime.session import Lessons
from convfind.testing.solvers import MockTimed

PROBLEM = ConvProblem.forward(x=(2, 4, 6, 6), w=(8, 4, 3, 3))
NEXT = ConvProblem.forward(x=(2, 8, 5, 5), w=(16, 8, 1, 1))


def forecasts(source: str = INDEX, error: float = 0.3, **times: float) -> dict[str, Forecast]:
    return {name: Forecast(time, error, source) for name, time in times.items()}


def ratio(found: Mapping[str, Forecast]) -> float:
    return found["a"].time_ms / found["b"].time_ms


def taught(count: int, *, noise: float = 0.0, **times: float) -> Lessons:
    """Lessons of so many problems, of any scale, whose solvers were all expected to take 1 ms."""
    lessons: Lessons = {}
    generator = random.Random(count)
    for number in range(count):
        scale = 3.0**number
        measured = {
            name: scale * time * math.exp(generator.gauss(0.0, noise))
            for name, time in times.items()
        }
        learn(lessons, PROBLEM, forecasts(INDEX, 0.3, **dict.fromkeys(times, 1.0)), measured)
    return lessons


def test_nothing_is_corrected_before_anything_is_learnt() -> None:
    before = forecasts(a=1.0, b=2.0)
    assert corrected({}, NEXT, before) is before


def test_who_takes_longer_than_expected_will_again() -> None:
    before = forecasts(a=1.0, b=1.0)
    ratios = [ratio(corrected(taught(n, a=1.0, b=2.0), NEXT, before)) for n in (1, 4, 16)]
    assert 0.9 > ratios[0] > ratios[1] > ratios[2]
    assert ratios[2] == pytest.approx(0.5, rel=0.1)


def test_the_error_that_is_left_is_the_one_seen() -> None:
    before = forecasts(a=1.0, b=1.0, c=1.0)
    alike = corrected(taught(40, a=1.0, b=2.0, c=3.0), NEXT, before)
    noisy = corrected(taught(40, noise=0.2, a=1.0, b=2.0, c=3.0), NEXT, before)
    wild = corrected(taught(40, noise=0.9, a=1.0, b=2.0, c=3.0), NEXT, before)
    assert alike["a"].error == pytest.approx(0.1)
    assert noisy["a"].error == pytest.approx(0.2, rel=0.3)
    assert wild["a"].error == before["a"].error, "an error is never larger than without lessons"


@pytest.mark.parametrize("false", [1e-300, 1e-6, 1e7, 1e300])
def test_a_false_time_teaches_nothing_about_the_solvers_beside_it(false: float) -> None:
    others = {"a": 1.0, "b": 2.0, "c": 1.0}
    before = forecasts(a=1.0, b=1.0, c=1.0, d=1.0)
    lessons = taught(5, **others)
    learn(lessons, PROBLEM, before | forecasts(d=false), others | {"d": 1.0})
    learn(lessons, PROBLEM, before, others | {"d": false})
    found, right = (corrected(one, NEXT, before) for one in (lessons, taught(7, **others)))
    assert {name: one.time_ms for name, one in found.items()} == pytest.approx(
        {name: one.time_ms for name, one in right.items()}, rel=0.02
    )


@pytest.mark.parametrize("source", SIBLINGS)
def test_records_and_models_of_other_devices_are_corrected_like_indices(source: str) -> None:
    lessons: Lessons = {}
    for _ in range(20):
        learn(lessons, PROBLEM, forecasts(source, a=1.0, b=1.0), {"a": 1.0, "b": 2.0})
    found = corrected(lessons, NEXT, forecasts(source, 0.17, a=1.0, b=1.0))
    assert ratio(found) == pytest.approx(0.5, rel=0.1)
    assert found["a"].error == pytest.approx(0.1)


def test_after_few_problems_the_error_is_nearly_the_forecasts() -> None:
    found = corrected(taught(1, a=1.0, b=1.0), NEXT, forecasts(a=1.0, b=1.0))
    assert found["a"].error == pytest.approx(0.3)


def test_who_has_never_run_stays_as_it_was() -> None:
    before = forecasts(a=1.0, b=1.0, new=4.0)
    assert corrected(taught(9, a=1.0, b=2.0), NEXT, before)["new"] == before["new"]


@pytest.mark.parametrize(
    "other",
    [
        NEXT.with_direction("backward-data"),
        ConvProblem.forward(x=(2, 8, 5, 5), w=(16, 8, 1, 1), dtype="float16"),
    ],
)
def test_problems_of_another_direction_or_type_teach_nothing(other: Any) -> None:
    before = forecasts(a=1.0, b=1.0)
    assert corrected(taught(9, a=1.0, b=2.0), other, before) is before


def test_what_was_measured_here_is_not_corrected_and_teaches_nothing() -> None:
    lessons = taught(9, a=1.0, b=2.0)
    before = forecasts("record", 0.1, a=1.0, b=1.0)
    assert corrected(lessons, NEXT, before) is before
    mixed = before | forecasts(SIBLINGS[1], c=1.0)
    assert corrected(lessons, NEXT, mixed) is mixed
    seen = dict(lessons)
    learn(lessons, NEXT, mixed, {"a": 1.0, "b": 9.0})
    assert lessons == seen


def test_a_solver_that_ran_alone_teaches_nothing() -> None:
    lessons: Lessons = {}
    learn(lessons, PROBLEM, forecasts(a=1.0, b=1.0), {"a": 7.0})
    assert not lessons


def test_the_latest_problems_count() -> None:
    lessons = taught(200, a=2.0, b=1.0)
    for number in range(64):
        times = {"a": 1.0 + number, "b": 2.0 + 2 * number}
        learn(lessons, PROBLEM, forecasts(a=1.0, b=1.0), times)
    assert ratio(corrected(lessons, NEXT, forecasts(a=1.0, b=1.0))) < 0.6
    assert [len(rows) for rows in lessons.values()] == [64]


def test_lessons_decide_about_who_ran_several_times_and_lately() -> None:
    lessons, now = taught(2, a=1.0, b=2.0), forecasts(a=1.0, b=1.0, c=1.0)
    assert well_known(lessons, NEXT, now) == set()
    learn(lessons, PROBLEM, now, {"a": 1.0, "b": 2.0, "c": 1.0})
    assert well_known(lessons, NEXT, now) == {"a", "b"}
    for _ in range(4):
        learn(lessons, PROBLEM, now, {"a": 1.0, "c": 1.0})
    assert well_known(lessons, NEXT, now) == {"a", "c"}, "b is given another chance"
    assert well_known(lessons, NEXT.with_direction("backward-data"), now) == set()


def test_lessons_about_indices_say_nothing_of_records_and_models() -> None:
    lessons = taught(20, a=1.0, b=2.0)
    for source in SIBLINGS:
        before = forecasts(source, 0.05, a=1.0, b=0.9)
        assert corrected(lessons, NEXT, before) == before
        assert well_known(lessons, NEXT, before) == set()
    mixed = forecasts(SIBLINGS[0], 0.05, a=1.0) | forecasts(b=1.0)
    found = corrected(lessons, NEXT, mixed)
    assert found["a"] == mixed["a"]
    assert found["b"].time_ms > 1.2
    assert well_known(lessons, NEXT, mixed) == {"b"}


def test_lessons_of_times_with_packing_say_nothing_of_those_without() -> None:
    lessons, before = taught(9, a=1.0, b=2.0), forecasts(a=1.0, b=1.0)
    assert corrected(lessons, NEXT, before, constant_weights=True) is before
    assert well_known(lessons, NEXT, before, constant_weights=True) == set()
    for _ in range(9):
        learn(lessons, PROBLEM, before, {"a": 2.0, "b": 1.0}, constant_weights=True)
    assert ratio(corrected(lessons, NEXT, before, constant_weights=True)) > 1.5
    assert ratio(corrected(lessons, NEXT, before)) < 0.6
    assert well_known(lessons, NEXT, before, constant_weights=True) == {"a", "b"}


def test_finds_with_constant_weights_have_lessons_of_their_own(bench: Any) -> None:
    field = (MockTimed("fast", 50, 0.9), MockTimed("close", 52, 0.8))
    handle = bench.open("mock-static", extra=field)
    handle.find(PROBLEM)
    before = dict(handle.session.lessons)
    assert len(before) == 1
    handle.find(NEXT, constant_weights=True)
    assert {field: handle.session.lessons[field] for field in before} == before
    assert len(handle.session.lessons) == 2
