"""``convfind db verify`` on a device whose clock is virtual: times are exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import convfind
import convfind_finddb_tools.hooks
from convfind.cli import build_program
from convfind.finddb import FindDb, FindEntry
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing.mock_backend import MOCK_TARGET, MockBackend
from convfind.testing.solvers import mock_solvers

SMALL = ConvProblem.forward((1, 4, 8, 8), (4, 4, 3, 3))


class MockPlugin:
    """The mock backend and its solvers."""

    __name__ = "mock-plugin"
    __version__ = "1.5"

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(MockBackend())

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.extend(mock_solvers())


@pytest.fixture
def registry() -> Registry:
    return Registry.build([MockPlugin(), convfind_finddb_tools.hooks], load_entry_points=False)


@pytest.fixture
def settings(tmp_path: Path, registry: Registry) -> Settings:
    settings = Settings(user_db_path=tmp_path / "user", compile_parallel_level=1)
    with convfind.open("mock", registry=registry, settings=settings) as handle:
        handle.find(SMALL)
    return settings


def verify(registry: Registry, settings: Settings, code: int) -> Any:
    program = build_program(registry, settings)
    result = CliRunner().invoke(program, ["db", "verify", "--json"])
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout)


def test_true_records_have_not_drifted(registry: Registry, settings: Settings) -> None:
    found = verify(registry, settings, 0)
    assert found["drifted"] == 0
    (record,) = found["records"]
    assert record["problem"] == SMALL.key
    assert record["ratio"] == pytest.approx(1.0)


def test_a_record_that_lies_is_reported_and_stays(registry: Registry, settings: Settings) -> None:
    with FindDb.open(settings.user_db_path) as database:
        stored = database.lookup(MOCK_TARGET, SMALL)
        assert stored is not None
        lies = tuple(
            msgspec.structs.replace(record, time_ms=record.time_ms * 10)
            for record in stored.entry.records
        )
        database.store(MOCK_TARGET, SMALL, FindEntry(records=lies), replace=True)
    before = (settings.user_db_path / "finddb.lmdb").read_bytes()
    found = verify(registry, settings, 1)
    assert found["drifted"] == 1
    assert found["records"][0]["ratio"] == pytest.approx(0.1)
    assert (settings.user_db_path / "finddb.lmdb").read_bytes() == before


def test_a_solver_that_is_gone_is_named(registry: Registry, settings: Settings) -> None:
    with FindDb.open(settings.user_db_path) as database:
        stored = database.lookup(MOCK_TARGET, SMALL)
        assert stored is not None
        gone = msgspec.structs.replace(stored.entry.records[0], solver="gone")
        database.store(MOCK_TARGET, SMALL, FindEntry(records=(gone,)), replace=True)
    (record,) = verify(registry, settings, 0)["records"]
    assert (record["now_ms"], record["reason"]) == (None, "not installed")
