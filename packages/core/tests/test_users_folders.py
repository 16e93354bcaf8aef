"""Tests leave the folders of whoever runs them alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from convfind.handle.opening import handle_for
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing import MockBackend


def test_the_default_database_lies_in_the_home_of_the_tests() -> None:
    settings = Settings.from_environment()
    registry = Registry.build([], load_entry_points=False)
    with handle_for(MockBackend().open(), registry, settings) as handle:
        handle.explain(ConvProblem.forward((1, 2, 4, 4), (2, 2, 3, 3)))
        (settings.user_db_path / "written").touch()
    assert settings.user_db_path.is_relative_to(Path(os.environ["HOME"]))


@pytest.mark.slow
def test_nothing_is_written_into_the_user_s_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    one = f"{__file__}::{test_the_default_database_lies_in_the_home_of_the_tests.__name__}"
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "CONVFIND_USER_DB_PATH": str(home / "db"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", one],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert list(home.rglob("*")) == []
