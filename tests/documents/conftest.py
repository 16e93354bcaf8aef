"""A database for each page and program, and the kernels that others have compiled before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))

from common_kernels import common_kernels


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with no record in it; pages say much the same."""
    with common_kernels(tmp_path / "database") as folder:
        monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(folder))
        yield folder
