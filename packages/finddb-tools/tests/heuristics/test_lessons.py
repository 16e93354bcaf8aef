"""What students learn of their teacher, and from what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from convfind.heuristics.features import SIZES
from convfind_finddb_tools.heuristics.dataset import read_dataset
from convfind_finddb_tools.heuristics.made_problems import made_problems

pytest.importorskip("torch", reason="training needs PyTorch")
import torch

from convfind_finddb_tools.heuristics.aim import FAIR, Aim
from convfind_finddb_tools.heuristics.descent import Descent
from convfind_finddb_tools.heuristics.lessons import Lessons
from convfind_finddb_tools.heuristics.perceptrons import Examples, Form, Pace, Perceptrons

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU"),
    ),
]


@pytest.mark.parametrize("device", DEVICES)
def test_students_come_near_their_teacher(device: str) -> None:
    teacher = Form(hidden=(48, 32), dropout=0.0, decay=0.01, members=2)
    student = Form(hidden=(24, 16), dropout=0.0, decay=0.01, members=2)
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((900, 3)).astype(np.float32)
    times = np.stack([np.sin(2 * inputs[:, 0]), inputs[:, 1] * inputs[:, 2]], axis=1)
    pace = Pace(epochs=8, batch=64, rate=4e-3, seed=0)
    examples = Examples.of(inputs, times, np.zeros(900, np.float32), device)
    asked = generator.standard_normal((4000, 3)).astype(np.float32)
    torch.manual_seed(0)
    wise = Perceptrons(teacher, (3, 48, 32), examples.typical)
    taught, alone = (Perceptrons(student, (3, 24, 16), examples.typical) for _ in range(2))
    epochs: list[int] = []
    wise.learn(examples, [np.arange(900)] * 2, pace, lambda: epochs.append(1))
    said, odds = wise.answers(asked)
    left, right = np.flatnonzero(asked[:, 0] < 0), np.flatnonzero(asked[:, 0] > 0)
    listed = np.ones(said.shape, np.bool_)
    problems, times_of_all, odds_of_all, all_listed = (
        torch.from_numpy(values).to(device) for values in (asked, said, odds, listed)
    )
    lessons = Lessons(problems, times_of_all, odds_of_all, all_listed, [left, right])
    few = [np.arange(40)] * 2
    slow = Pace(epochs=8, batch=64, rate=1e-2, seed=0, steps=120)
    taught.learn(examples, few, slow, lambda: epochs.append(1), lessons)
    alone.learn(examples, few, slow, lambda: epochs.append(1))
    assert len(epochs) == 24

    def away(net: Perceptrons, member: int, rows: NDArray[np.int64]) -> float:
        found = net.mean(asked[rows], slice(member, member + 1))
        return float(np.abs(found - said[rows]).mean())

    for member, own, other in ((0, left, right), (1, right, left)):
        assert away(taught, member, own) < 0.5 * away(alone, member, own)
        assert away(taught, member, own) < 0.5 * away(taught, member, other)


def test_what_the_teacher_takes_to_be_slow_counts_little() -> None:
    said = torch.tensor([[0.0, 1.0, 3.0]])
    odds = torch.softmax(-FAIR.sharpness * said, 1)
    lessons = Lessons(torch.zeros(1, 1), said, odds, said < np.inf, [np.arange(1)])

    def distance(column: int) -> float:
        predicted = said.clone()
        predicted[0, column] += 0.5
        return float(lessons.distance(predicted, torch.tensor([0]), FAIR) - nothing)

    nothing = float(lessons.distance(said, torch.tensor([0]), FAIR))
    assert 0.4 * distance(0) > distance(1)
    assert 0.2 * distance(1) > distance(2) > 0


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def test_odds_are_the_mean_of_the_choices_of_all() -> None:
    form = Form(hidden=(4,), dropout=0.0, decay=0.0, members=3, aim=Aim(sharpness=20.0))
    torch.manual_seed(0)
    net = Perceptrons(form, (2, 4), torch.zeros(3))
    inputs = np.random.default_rng(0).standard_normal((7, 2)).astype(np.float32)
    each = np.stack([net.mean(inputs, slice(i, i + 1)) for i in range(3)])
    times, odds = net.answers(inputs)
    expected = softmax(-20.0 * each.astype(np.float64)).mean(axis=0)
    np.testing.assert_allclose(odds, expected, atol=1e-5)
    np.testing.assert_allclose(times, each.mean(axis=0), atol=1e-6)
    assert np.abs(softmax(-20.0 * times.astype(np.float64)) - odds).max() > 0.01


def test_lessons_choose_by_odds_among_what_is_listed() -> None:
    said, odds = np.array([[0.0, 0.2, 0.1]]), np.array([[0.6, 0.3, 0.1]])
    predicted, listed = np.array([[0.1, 0.2, -3.0]]), np.array([[True, True, False]])
    times, choices, measured = (torch.from_numpy(values) for values in (said, odds, listed))
    lessons = Lessons(torch.zeros(1, 1), times, choices, measured, [np.arange(1)])

    def distance(choice: float) -> float:
        aim = Aim(choice=choice, sharpness=14.0)
        return float(lessons.distance(torch.from_numpy(predicted), torch.tensor([0]), aim))

    log_odds = np.log(softmax(-14.0 * predicted[:, :2]))
    expected = -float((np.array([2 / 3, 1 / 3]) * log_odds).sum())
    assert distance(3.0) - distance(0.0) == pytest.approx(3.0 * expected, rel=1e-6)


def test_the_aim_weighs_the_choice_of_what_is_measured() -> None:
    times = np.array([[0.0, 0.05, 0.3]])
    examples = Examples.of(np.zeros((1, 2), np.float32), times, np.zeros(1, np.float32))
    start = torch.tensor([0.1, 0.0, 0.2])
    predicted = start.numpy().astype(np.float64)

    def loss(aim: Aim) -> float:
        form = Form(hidden=(), dropout=0.0, decay=0.0, aim=aim)
        seen = examples.with_contrast(aim.contrast)
        net = Perceptrons(form, (2,), start)
        return float(net._loss(seen, torch.zeros(1, 1).long()).detach())

    def expected(aim: Aim) -> float:
        log_odds = np.log(softmax(-aim.sharpness * predicted))
        targets = softmax(-aim.contrast * times[0])
        regret = 2.0 * (times[0] * np.exp(log_odds)).sum()
        return float(regret - aim.choice * (targets * log_odds).sum())

    for aim in (Aim(choice=3.0), Aim(sharpness=14.0), Aim(contrast=40.0)):
        change = loss(aim) - loss(FAIR)
        assert abs(change) > 1e-3
        assert change == pytest.approx(expected(aim) - expected(FAIR), rel=1e-4)


def test_what_is_measured_counts_a_fifth_beside_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    losses: list[float] = []

    class Asked(Descent):
        def step(self, *rows: torch.Tensor) -> None:
            losses.append(float(self._loss(*rows).detach()))

    monkeypatch.setattr("convfind_finddb_tools.heuristics.perceptrons.Descent", Asked)
    times = np.tile([[0.0, 0.5]], (8, 1))
    examples = Examples.of(np.zeros((8, 2), np.float32), times, np.zeros(8, np.float32))
    net = Perceptrons(Form(hidden=(), dropout=0.0, decay=0.0), (2,), torch.tensor([0.3, 0.1]))
    said = torch.tensor([[0.0, 0.5]]).expand(8, 2)
    lessons = Lessons(torch.zeros(8, 2), said, said, said < 1, [np.arange(8)])
    pace = Pace(epochs=1, batch=8, rate=1e-3, seed=0, steps=1)
    net.learn(examples, [np.arange(8)], pace, lambda: None)
    net.learn(examples, [np.arange(8)], pace, lambda: None, lessons)
    predicted = torch.tensor([[0.3, 0.1]]).expand(8, 2)
    told = float(lessons.distance(predicted, torch.arange(8), FAIR)) / 8
    alone, taught = losses
    assert taught == pytest.approx(0.2 * alone + told, rel=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_a_descent_arrives(device: str) -> None:
    place = torch.nn.Parameter(torch.zeros(2, device=device))
    memory = torch.zeros(1, dtype=torch.int64, device=device)
    marks = torch.tensor([3.0, -1.0], device=device)

    def loss(row: torch.Tensor) -> torch.Tensor:
        return (place[row] - marks[row]).square().sum()

    descent = Descent([place], loss, [memory], rate=0.2, decay=0.0, steps=200)
    for number in range(200):
        descent.step(torch.tensor([number % 2], device=device))
    np.testing.assert_allclose(place.detach().cpu().numpy(), [3.0, -1.0], atol=0.05)


def test_made_problems_could_be_measured() -> None:
    dataset = read_dataset([Path(__file__).parents[1] / "data/gfx90a68.HIP.fdb.txt"])
    rows, source = made_problems(dataset.rows, 500, 3)
    again, _ = made_problems(dataset.rows, 500, 3)
    np.testing.assert_array_equal(rows, again)
    assert 400 < len(rows) <= 500
    assert len(np.unique(rows, axis=0)) > 300
    same = [SIZES.index(f"filter_{axis}") for axis in ("depth", "height", "width")]
    np.testing.assert_array_equal(rows[:, same], dataset.rows[source][:, same])
    assert (rows >= dataset.rows.min(axis=0)).all()
    assert (rows <= dataset.rows.max(axis=0)).all()
    for row in rows.tolist():
        named = dict(zip(SIZES, row, strict=True))
        for axis in ("depth", "height", "width"):
            of = {name: named[f"{name}_{axis}"] for name in ("filter", "stride", "padding")}
            reach = named[f"dilation_{axis}"] * (of["filter"] - 1) + 1
            room = named[axis] + 2 * of["padding"] - reach
            assert room >= 0
            assert named[f"out_{axis}"] == room // of["stride"] + 1
