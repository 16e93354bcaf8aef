"""Where a model is weak is found on families that it did not see, and left to others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convfind.heuristics.domain import region_of
from convfind.heuristics.features import sizes
from convfind.problem import ConvProblem
from convfind.types import Direction
from convfind_finddb_tools.heuristics.dataset import Dataset, read_dataset

from .conftest import fill

pytest.importorskip("torch", reason="training needs PyTorch")
from convfind_finddb_tools.heuristics import regions
from convfind_finddb_tools.heuristics.evaluation import evaluate, first_choices
from convfind_finddb_tools.heuristics.perceptrons import Form
from convfind_finddb_tools.heuristics.regions import unseen_choices, weak_regions
from convfind_finddb_tools.heuristics.training import Recipe, train

RECIPE = Recipe(
    seed=3, epochs=8, held_out=0.0, forms=((0, Form(hidden=(16, 8), dropout=0.1, decay=0.05)),)
)
POINT = region_of(sizes(ConvProblem.forward((1, 8, 9, 9), (8, 8, 1, 1))))
WINDOW = region_of(sizes(ConvProblem.forward((1, 8, 9, 9), (8, 8, 3, 3))))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return read_dataset([fill(tmp_path_factory.mktemp("data") / "tuned", 360, 1)])


def test_what_first_choices_cost_is_what_the_scores_say(dataset: Dataset) -> None:
    model = train(dataset.select(dataset.rows[:, 0] < 16), RECIPE)
    costs = first_choices(model, dataset)
    known = ~np.isnan(costs)
    (scores,) = evaluate(model, dataset).values()
    assert scores.problems == known.sum() > 0
    assert scores.not_applicable == (~known).sum() > 0
    assert (dataset.rows[~known, 0] == 16).any()  # a larger batch than any that it saw
    assert scores.geomean_slowdown == pytest.approx(np.exp(costs[known].mean()))


def test_no_model_chooses_for_families_that_it_saw(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[int]] = []

    def watched(part: Dataset, recipe: Recipe) -> Any:
        assert recipe.held_out == 0.0
        seen.append(set(part.family.tolist()))
        return train(part, recipe)

    scored: list[set[int]] = []

    def first(model: Any, part: Dataset) -> Any:
        scored.append(set(part.family.tolist()))
        return first_choices(model, part)

    monkeypatch.setattr(regions, "train", watched)
    monkeypatch.setattr(regions, "first_choices", first)
    costs = unseen_choices(dataset, RECIPE, folds=3)
    assert np.isfinite(costs).mean() > 0.8
    assert len(seen) == 3
    for theirs, ours in zip(seen, scored, strict=True):
        assert ours.isdisjoint(theirs)
        assert ours | theirs == set(dataset.family.tolist())


def test_a_region_is_weak_by_more_than_chance(dataset: Dataset) -> None:
    window = np.array([region_of(row) == WINDOW for row in dataset.rows.tolist()])
    assert 60 < window.sum() < 300
    index = np.full(len(dataset), 0.1)
    noise = np.where(np.arange(len(dataset)) % 2, 0.05, -0.05)
    behind = index + noise + np.where(window, 0.02, -0.02)
    assert weak_regions(dataset, behind, index)[Direction.FORWARD] == {WINDOW}
    assert not weak_regions(dataset, index + noise, index)[Direction.FORWARD]
    unknown = np.where(np.cumsum(window) > 29, np.nan, behind)
    assert WINDOW not in weak_regions(dataset, unknown, index)[Direction.FORWARD]
    assert not weak_regions(dataset, behind, index)[Direction.BACKWARD_DATA]


def test_a_model_leaves_weak_regions_to_others(dataset: Dataset) -> None:
    weak = {Direction.FORWARD: frozenset({WINDOW})}
    costs = first_choices(train(dataset, RECIPE, weak=weak), dataset)
    regions_of = [region_of(row) for row in dataset.rows.tolist()]
    assert {region for region, cost in zip(regions_of, costs, strict=True) if cost >= 0} == {POINT}
    assert {region for region, cost in zip(regions_of, costs, strict=True) if np.isnan(cost)} == {
        WINDOW
    }
