"""Ranking solvers without running them: the contract of a heuristic, and trained models."""

from __future__ import annotations

from convfind.heuristics.contract import Heuristic, NotApplicable, Prediction
from convfind.heuristics.model import HeuristicWarning, TrainedHeuristic

__all__ = ["Heuristic", "HeuristicWarning", "NotApplicable", "Prediction", "TrainedHeuristic"]
