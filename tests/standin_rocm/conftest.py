"""The stand-in for each test, which must leave nothing behind on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

import standin as standin_module


@pytest.fixture(scope="session")
def built() -> standin_module.Standin:
    reason = standin_module.missing()
    if reason is not None:
        pytest.skip(reason)
    return standin_module.use()


@pytest.fixture(autouse=True)
def standin(built: standin_module.Standin) -> Iterator[standin_module.Standin]:
    before = built.live()
    yield built
    built.reset()
    assert built.live() == before
