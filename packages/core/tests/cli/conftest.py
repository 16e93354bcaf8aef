"""A program whose only backend is the mock one, with a database of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from convfind.cli import build_program
from convfind.log import logger
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.settings import Settings
from convfind.testing.mock_backend import MockBackend
from convfind.testing.solvers import mock_solvers


class MockPlugin:
    """The mock backend and its solvers."""

    __name__ = "mock-plugin"
    __version__ = "1.5"

    def __init__(self, backend: MockBackend) -> None:
        self.backend = backend

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(self.backend)

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.extend(mock_solvers())


@dataclass
class Shell:
    """Runs the program in this process."""

    backend: MockBackend
    settings: Settings

    def __call__(self, *arguments: object, extra: tuple[object, ...] = (), code: int = 0) -> Result:
        """Run a command line, expecting an exit code."""
        program = build_program(self.registry(*extra), self.settings)
        result = CliRunner().invoke(program, [str(word) for word in arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def registry(self, *extra: object) -> Registry:
        """The mock plugin and others."""
        return Registry.build([MockPlugin(self.backend), *extra], load_entry_points=False)

    def json(self, *arguments: object, code: int = 0, extra: tuple[object, ...] = ()) -> Any:
        """Run a command line with ``--json`` and return what it printed."""
        return json.loads(self(*arguments, "--json", code=code, extra=extra).stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(MockBackend(), Settings(user_db_path=tmp_path / "db", compile_parallel_level=1))


@pytest.fixture(autouse=True)
def _quiet_again() -> Iterator[None]:
    """Undo what --verbose and --debug do to the logger."""
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture
def layer_file(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes a layer file."""

    def write(text: str) -> Path:
        path = tmp_path / "layers.txt"
        path.write_text(text)
        return path

    return write
