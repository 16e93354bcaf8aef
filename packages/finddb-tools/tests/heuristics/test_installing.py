"""Models that a user installs: checked, asked by finds, listed and removed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convfind.plugins import hookimpl
from convfind.testing import MockBackend, mock_solvers

from .conftest import random_problems

Measured = Callable[[str, int, int], Path]


class Device:
    """The mock device with its solvers, as packages bring them."""

    def __init__(self, backend: MockBackend) -> None:
        self._backend = backend

    @hookimpl
    def convfind_register_backends(self, register: Any) -> None:
        register.add(self._backend)

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend(mock_solvers())


@pytest.fixture
def model(shell: Any, measured: Measured, tmp_path: Path) -> Path:
    path = tmp_path / "mine.npz"
    words = ["--output", path, "--epochs", 2]
    shell("heuristics", "train", measured("tuned", 90, 1), *words)
    return path


def installed(shell: Any) -> list[Any]:
    """What `convfind heuristics models` lists but for what packages bring."""
    listed = shell.json("heuristics", "models")["models"]
    return [model for model in listed if model["name"].startswith("models/")]


def test_an_installed_model_is_asked_until_it_is_uninstalled(
    shell: Any, model: Path, backend: MockBackend
) -> None:
    shell.plugins = (Device(backend),)
    problem = random_problems(90, 1)[4]
    find = ["find", "--mode", "FAST", "--x", ",".join(map(str, problem.x_shape))]
    find += ["--w", ",".join(map(str, problem.w_shape)), "--padding", str(problem.padding[0])]

    def origin() -> str:
        return str(shell.json(*find)["solutions"][0]["time_origin"])

    assert origin() == "wti"
    place = Path(shell.json("heuristics", "install", model)["installed"])
    assert place.parent.parent == shell.settings.user_db_path
    assert origin() == "predicted"
    (listed,) = installed(shell)
    assert listed["name"] == "models/mine.npz"
    assert listed["devices"] == {backend.open().target.identity: True}
    assert listed["training"]["seed"] == 0
    assert "models/mine.npz" in shell("heuristics", "models").stdout
    assert "mine.npz" in shell.error("heuristics", "models", "--uninstall", "other")
    shell("heuristics", "models", "--uninstall", "mine")
    assert not place.exists()
    assert origin() == "wti"


def test_a_model_for_other_devices_is_refused_unless_that_is_meant(shell: Any, model: Path) -> None:
    assert "--any-device" in shell.error("heuristics", "install", model)
    assert not installed(shell)
    shell("heuristics", "install", model, "--any-device")
    (listed,) = installed(shell)
    assert list(listed["devices"].values()) == [False]


def test_damage_is_refused_before_and_reported_after(shell: Any, model: Path) -> None:
    place = Path(shell.json("heuristics", "install", model, "--any-device")["installed"])
    whole = place.read_bytes()
    model.write_bytes(whole[:400])
    assert "damaged" in shell.error("heuristics", "install", model, "--any-device")
    assert place.read_bytes() == whole
    place.write_bytes(whole[:400])
    result = shell("heuristics", "models", code=1)
    assert "damaged" in result.stdout
