"""Tests across packages use modules of the folder above, and kernels that others have compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))

from common_kernels import common_kernels


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """A folder with no record in it, for what is not about compiling."""
    with common_kernels(tmp_path / "database") as folder:
        yield folder
