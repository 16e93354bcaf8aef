"""The program with the commands of this package, on databases in a folder of the test."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import convfind_finddb_tools.hooks
from convfind.cli import build_program
from convfind.device.target import DeviceKind, Target
from convfind.finddb import FindDb, FindEntry, FindRecord
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings

TARGET = Target(
    backend="opencl",
    name="Test Device",
    kind=DeviceKind.CPU,
    vendor="Test",
    platform="Test CL",
    arch="test-1",
    compute_units=8,
    driver="driver 1",
)
PROBLEM = ConvProblem.forward((16, 64, 56, 56), (64, 64, 3, 3), padding=1)


@dataclass
class Shell:
    """Runs the program in this process."""

    settings: Settings
    plugins: tuple[object, ...] = ()

    def __call__(self, *arguments: object, code: int | None = 0) -> Result:
        """Run a command line, expecting an exit code; None: any."""
        plugins = [convfind_finddb_tools.hooks, *self.plugins]
        registry = Registry.build(plugins, load_entry_points=False)
        program = build_program(registry, self.settings)
        result = CliRunner().invoke(program, [str(word) for word in arguments])
        assert code in (None, result.exit_code), (result.output, result.exception)
        return result

    def json(self, *arguments: object) -> Any:
        """Run a command line with ``--json`` and return what it printed."""
        return json.loads(self(*arguments, "--json").stdout)

    def error(self, *arguments: object) -> str:
        """Run a command line that fails with a message of one line, and return that."""
        stderr = self(*arguments, code=1).stderr
        assert stderr.startswith("error: ")
        assert stderr.count("\n") == 1
        return stderr


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(Settings(user_db_path=tmp_path / "user"))


@pytest.fixture
def record() -> Callable[..., FindRecord]:
    return make_record


def make_record(solver: str = "solver-a", time_ms: float = 1.0, **fields: Any) -> FindRecord:
    """Make a record of version 1 of a solver."""
    given: dict[str, Any] = {
        "samples": 5,
        "driver": TARGET.driver,
        "created": int(time.time()),
    } | fields
    return FindRecord(
        solver=solver,
        solver_version=1,
        package="solvers 1.0",
        algorithm="direct",
        time_ms=time_ms,
        **given,
    )


@pytest.fixture
def target() -> Target:
    return TARGET


@pytest.fixture
def problem() -> ConvProblem:
    return PROBLEM


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that stores records in a database and gives its folder."""

    def put(name: str, *records: FindRecord, problem: ConvProblem = PROBLEM) -> Path:
        with FindDb.open(tmp_path / name) as database:
            database.store(TARGET, problem, FindEntry(records=records, considered=("x@1",)))
        return tmp_path / name

    return put
