"""Installed models: files that a user put beside the database."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convfind.heuristics.model import TrainedHeuristic

SUFFIX = ".npz"

_FOLDER = "models"


def models_folder(user_path: Path) -> Path:
    """Return the folder of installed models for a user's database, given as folder or file."""
    return (user_path.parent if user_path.suffix == ".lmdb" else user_path) / _FOLDER


def installed_models(user_path: Path) -> tuple[TrainedHeuristic, ...]:
    """Return the installed models, named ``models/FILE``, latest first, without reading them."""
    found = []
    try:
        for file in models_folder(user_path).iterdir():
            if file.suffix == SUFFIX and not file.name.startswith(".") and file.is_file():
                found.append((-file.stat().st_mtime_ns, file.name, file))
    except OSError:
        return ()  # a cache is never fatal
    return tuple(_model(file, stamp) for stamp, _, file in sorted(found))


@lru_cache(maxsize=64)
def _model(file: Path, stamp: int) -> TrainedHeuristic:
    """Return the model of a file at a given time of change: shared by handles, so it warns once."""
    from convfind.heuristics.model import TrainedHeuristic

    return TrainedHeuristic(f"{_FOLDER}/{file.name}", file)
