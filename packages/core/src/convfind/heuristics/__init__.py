"""Ranking solvers without running them: the contract of a heuristic, and trained models."""

from __future__ import annotations

from convfind.heuristics.contract import (
    Heuristic,
    NeighbourHeuristic,
    NotApplicable,
    Prediction,
)
from convfind.heuristics.model import HeuristicWarning, TrainedHeuristic
from convfind.heuristics.neighbours import Neighbour, Records, Relation

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
