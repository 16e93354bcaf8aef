"""Models beside the database: which are asked, in which order, and how often they warn."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from convfind.find.solution import TimeOrigin
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.heuristics import HeuristicWarning
from convfind.heuristics.installed import installed_models, models_folder
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing import MockBackend

from .test_fallback import Plugin

Make = Callable[..., Path]

PROBLEM = ConvProblem.forward(x=(2, 4, 8, 8), w=(8, 4, 3, 3), padding=1)


def put(path: Path, user_path: Path, name: str, second: int) -> Path:
    folder = models_folder(user_path)
    folder.mkdir(parents=True, exist_ok=True)
    place = path.rename(folder / name)
    os.utime(place, (second, second))
    return place


def open_handle(backend: MockBackend, user_path: Path, *registered: Path) -> Handle:
    registry = Registry.build([Plugin(backend, *registered)], load_entry_points=False)
    return handle_for(backend.open(), registry, Settings(user_db_path=user_path))


def test_installed_models_are_asked_before_those_of_packages(
    make_model: Make, backend: MockBackend, tmp_path: Path
) -> None:
    user_path = tmp_path / "db"
    put(make_model(), user_path, "older.npz", 1000)
    put(make_model(identity="another|device"), user_path, "newer.npz", 2000)
    with open_handle(backend, user_path, make_model()) as handle:
        advice = handle.explain(PROBLEM).advice
        assert advice.heuristic == "models/older.npz"
        assert [name for name, _ in advice.refusals] == ["models/newer.npz"]
        assert handle.find(PROBLEM, "FAST").best.time_origin is TimeOrigin.PREDICTED


def test_other_files_beside_models_and_a_missing_folder_are_nothing(tmp_path: Path) -> None:
    assert installed_models(tmp_path) == ()
    models_folder(tmp_path).mkdir()
    for name in (".m.npz.x7", ".m.npz", "README"):
        (models_folder(tmp_path) / name).write_text("")
    assert installed_models(tmp_path) == ()


def test_a_damaged_installed_model_warns_once_for_all_handles(
    make_model: Make, backend: MockBackend, tmp_path: Path
) -> None:
    place = put(make_model(), tmp_path / "db", "bad.npz", 1000)
    place.write_bytes(place.read_bytes()[:500])
    with (
        open_handle(backend, tmp_path / "db") as handle,
        pytest.warns(HeuristicWarning, match="bad.npz is damaged"),
    ):
        assert handle.find(PROBLEM, "FAST").best.time_origin is TimeOrigin.WTI
    with open_handle(backend, tmp_path / "db") as handle:  # warnings are errors here
        assert handle.find(PROBLEM, "FAST").best.time_origin is TimeOrigin.WTI
    place.unlink()
    replaced = put(make_model(), tmp_path / "db", "bad.npz", 3000)
    with open_handle(backend, tmp_path / "db") as handle:
        assert handle.explain(PROBLEM).advice.heuristic == f"models/{replaced.name}"
