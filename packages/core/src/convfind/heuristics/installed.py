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
    """The folder of installed models that belongs to a user's database, a folder or its file."""
    return (user_path.parent if user_path.suffix == ".lmdb" else user_path) / _FOLDER


def installed_models(user_path: Path) -> tuple[TrainedHeuristic, ...]:
    """Installed models, named ``models/FILE``, the latest installed first; none is read yet."""
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
    """The model of a file as it was at that time: handles share it, and it warns once."""
    from convfind.heuristics.model import TrainedHeuristic

    return TrainedHeuristic(f"{_FOLDER}/{file.name}", file)
