"""The models of convfind's own solvers that the package ships."""

from __future__ import annotations

from pathlib import Path

from convfind.heuristics import TrainedHeuristic
from convfind.heuristics.installed import SUFFIX

_FOLDER = Path(__file__).parents[1] / "models"


def shipped_models() -> list[TrainedHeuristic]:
    """Models of devices by the names of their files, which is the order in which they are asked: a
    later one of a device answers where the first does not know a solver. None is read yet.
    """
    files = sorted(_FOLDER.glob(f"*{SUFFIX}"), key=lambda file: file.stem)
    return [TrainedHeuristic(file.stem, file) for file in files]
