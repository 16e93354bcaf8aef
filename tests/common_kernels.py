"""Databases that begin with the kernels that other tests of the session have compiled."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BINARIES = "binaries.lmdb"


@contextmanager
def common_kernels(folder: Path) -> Iterator[Path]:
    """Make a folder for a database without records, but with kernels: compiling takes longest.

    They are kept in the home folder, which the processes that share the tests have in common.
    """
    folder.mkdir(exist_ok=True)
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
