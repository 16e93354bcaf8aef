"""A handle on a mock device, with the mock solvers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.settings import Settings
from convfind.testing import MockBackend, mock_solvers


class MockSolvers:
    """The mock solvers as a plugin."""

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend(mock_solvers())


@pytest.fixture
def mock_handle(tmp_path: Path) -> Iterator[Handle]:
    registry = Registry.build([MockSolvers()], load_entry_points=False)
    with handle_for(MockBackend().open(), registry, Settings(user_db_path=tmp_path)) as opened:
        yield opened
