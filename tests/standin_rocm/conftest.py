"""The stand-in for each test, which must leave nothing behind on it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

import standin as standin_module

_REASON = standin_module.missing()
if importlib.util.find_spec("hip") is None:
    _REASON = "hip-python is not installed"

collect_ignore = (
    [] if _REASON is None else [path.name for path in Path(__file__).parent.glob("test_*")]
)


@pytest.fixture(scope="session")
def built() -> standin_module.Standin:
    return standin_module.use()


@pytest.fixture(autouse=True)
def standin(built: standin_module.Standin) -> Iterator[standin_module.Standin]:
    before = built.live()
    yield built
    built.reset()
    assert built.live() == before
