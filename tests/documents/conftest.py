"""A database for each page and program, and the kernels that others have compiled before."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_BINARIES = "binaries.lmdb"


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with no record in it; compiling takes longest, and pages say much the same.

    The kernels are in the home folder, which the processes that share the tests have in common.
    """
    folder = tmp_path / "database"
    folder.mkdir()
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(folder))
    compiled, common = folder / _BINARIES, Path.home() / _BINARIES
    if common.exists():
        shutil.copy(common, compiled)
    yield folder
    if compiled.exists() and (
        not common.exists() or compiled.stat().st_size > common.stat().st_size
    ):
        number, path = tempfile.mkstemp(dir=common.parent)
        os.close(number)
        shutil.copy(compiled, path)
        os.replace(path, common)
