"""Plugins for tests, installed as pip would: modules beside ``.dist-info`` folders."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs a distribution and returns the name of its plugin."""

    def run(
        distribution: str, code: str, *, version: str = "1.0", entry_points: str | None = None
    ) -> str:
        module = distribution.replace("-", "_") + "_hooks"
        folder = tmp_path / distribution
        info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (folder / f"{module}.py").write_text(textwrap.dedent(code))
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        listed = entry_points or f"[convfind]\n{distribution}-plugin = {module}\n"
        (info / "entry_points.txt").write_text(listed)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return f"{distribution}-plugin"

    return run
