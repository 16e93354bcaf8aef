"""A CPU that OpenCL runs on, open for all tests; those of this package share modules here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import convfind
from convfind.handle import Handle
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings

sys.path.append(str(Path(__file__).parent))


class Finds:
    """A plugin that notes which problems a find compiles and measures for."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    @hookimpl
    def convfind_find_started(self, problem: ConvProblem) -> None:
        """Note a find that has something to do."""
        self.problems.append(problem.key)


@pytest.fixture(scope="session")
def finds() -> Finds:
    """The finds of the session so far."""
    return Finds()


@pytest.fixture(scope="session")
def handle(tmp_path_factory: pytest.TempPathFactory, finds: Finds) -> Iterator[Handle]:
    """An open CPU with a database of its own."""
    folder: Path = tmp_path_factory.mktemp("db")
    settings = Settings(user_db_path=folder)
    with convfind.open("opencl:cpu", registry=Registry.build([finds]), settings=settings) as opened:
        yield opened
