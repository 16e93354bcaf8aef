"""Ranking solvers without running them: the contract of a heuristic, and trained models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.heuristics.contract import (
    Heuristic,
    NeighbourHeuristic,
    NotApplicable,
    Prediction,
)
from convfind.heuristics.neighbours import Neighbour, Records, Relation

if TYPE_CHECKING:
    from convfind.heuristics.model import HeuristicWarning, TrainedHeuristic
else:

    def __getattr__(name: str) -> object:
        # Models are a seventh of the time of ``import convfind``, and few programs need one.
        if name in ("HeuristicWarning", "TrainedHeuristic"):
            from convfind.heuristics import model

            return getattr(model, name)
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)


__all__ = [
    "Heuristic",
    "HeuristicWarning",
    "Neighbour",
    "NeighbourHeuristic",
    "NotApplicable",
    "Prediction",
    "Records",
    "Relation",
    "TrainedHeuristic",
]
