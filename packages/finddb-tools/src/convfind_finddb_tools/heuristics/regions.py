"""Regions in which a model does not help: other choices are better on problems it did not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from convfind.heuristics.domain import Region, region_of
from convfind.types import Direction
from convfind_finddb_tools.heuristics.dataset import Dataset
from convfind_finddb_tools.heuristics.evaluation import first_choices
from convfind_finddb_tools.heuristics.split import held_out
from convfind_finddb_tools.heuristics.training import Recipe, train

_FEWEST = 30  # problems that say anything about a region

Costs = NDArray[np.float64]


def unseen_choices(dataset: Dataset, recipe: Recipe, folds: int = 5) -> Costs:
    """Return the cost of models that did not see the family: log slowdowns of `first_choices`.

    As many models are trained as there are folds of the families.
    """
    costs = np.full(len(dataset), np.nan)
    for fold in _folds(dataset, folds, recipe.seed):
        if fold.any() and not fold.all():
            model = train(dataset.select(~fold), replace(recipe, held_out=0.0))
            costs[fold] = first_choices(model, dataset.select(fold))
    return costs


def _folds(dataset: Dataset, folds: int, seed: int) -> Iterator[NDArray[np.bool_]]:
    before = np.zeros(len(dataset), np.bool_)
    for number in range(1, folds + 1):
        upto = held_out(dataset, "family", number / folds, seed)
        yield upto & ~before
        before = upto


def weak_regions(
    dataset: Dataset, ours: Costs, others: Costs
) -> Mapping[Direction, frozenset[Region]]:
    """Return the regions where the others chose better, by more than the standard error.

    Both are log slowdowns of the problems. NaNs are ignored.
    """
    behind: dict[tuple[int, Region], list[float]] = {}
    for direction, row, cost in zip(
        dataset.directions.tolist(), dataset.rows.tolist(), (ours - others).tolist(), strict=True
    ):
        behind.setdefault((direction, region_of(row)), []).append(cost)
    return {
        direction: frozenset(
            region
            for (other, region), costs in behind.items()
            if other == number and _is_worse(np.array(costs))
        )
        for number, direction in enumerate(Direction)
    }


def _is_worse(behind: Costs) -> bool:
    known = behind[np.isfinite(behind)]
    if len(known) < _FEWEST:
        return False
    return bool(known.mean() > known.std() / np.sqrt(len(known)))
