"""Messages say how to install what is missing in the form that works where they appear."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from convfind.install_hint import pip_install


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that notes where convfind was installed from, as pip does."""

    class Distribution:
        def __init__(self, note: str | None) -> None:
            self._note = note

        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return self._note

    def install(note: object) -> None:
        text = note if isinstance(note, str | None) else json.dumps(note)
        monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(text))

    return install


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("core", "finddb-tools", "frontend-torch"):
        (tmp_path / "packages" / name).mkdir(parents=True)
        (tmp_path / "packages" / name / "pyproject.toml").write_text("")
    return tmp_path


@pytest.mark.parametrize("note", [None, "", "{", {}, {"url": "https://example.org/x.whl"}])
def test_from_an_index_packages_have_their_names(installed: Any, note: object) -> None:
    installed(note)
    assert pip_install("convfind-networks") == "python -m pip install convfind-networks"
    assert pip_install("convfind-a[b]") == 'python -m pip install "convfind-a[b]"'


def test_in_a_checkout_packages_are_folders(
    installed: Any, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed({"url": (checkout / "packages/core").as_uri(), "dir_info": {"editable": True}})
    monkeypatch.chdir(checkout)
    tools = pip_install("convfind-finddb-tools[sign]")
    assert tools == 'python -m pip install "./packages/finddb-tools[sign]"'
    assert pip_install("convfind-torch") == "python -m pip install ./packages/frontend-torch"
    assert pip_install("another") == "python -m pip install another"
    monkeypatch.chdir(checkout / "packages")
    assert pip_install("convfind-torch").endswith(str(checkout / "packages/frontend-torch"))


def test_a_checkout_that_is_gone_is_none(installed: Any, tmp_path: Path) -> None:
    installed({"url": (tmp_path / "gone/packages/core").as_uri(), "dir_info": {}})
    assert pip_install("convfind-torch") == "python -m pip install convfind-torch"


def test_a_wheel_built_in_a_checkout_is_from_nowhere(installed: Any, checkout: Path) -> None:
    wheel = checkout / "packages/core/dist/convfind-0.1-py3-none-any.whl"
    installed({"url": wheel.as_uri(), "archive_info": {}})
    assert pip_install("convfind-torch") == "python -m pip install convfind-torch"
