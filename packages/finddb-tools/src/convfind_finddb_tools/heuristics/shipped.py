"""The models of convfind's own solvers that the package ships."""

from __future__ import annotations

from pathlib import Path

from convfind.heuristics import TrainedHeuristic
from convfind.heuristics.installed import SUFFIX

_FOLDER = Path(__file__).parents[1] / "models"


def shipped_models() -> list[TrainedHeuristic]:
    """A model for each device that there is one for, by the name of its file; none is read yet."""
    return [TrainedHeuristic(file.stem, file) for file in sorted(_FOLDER.glob(f"*{SUFFIX}"))]
