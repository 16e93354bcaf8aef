"""What is compiled ahead is all that measuring needs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing import MockBackend
from convfind.testing.solvers import mock_solvers
from convfind_finddb_tools.tune.order import Order, Seed, Strategy, Task
from convfind_finddb_tools.tune.station import DeviceStation

_PROBLEM = ConvProblem.forward((1, 4, 8, 8), (4, 4, 3, 3))


def _station(folder: Path, strategy: Strategy) -> tuple[DeviceStation, MockBackend]:
    backend = MockBackend()

    class Plugin:
        @hookimpl
        def convfind_register_backends(self, register: BackendRegistry) -> None:
            register.add(backend)

        @hookimpl
        def convfind_register_solvers(self, register: SolverRegistry) -> None:
            register.extend(mock_solvers())

    registry = Registry.build([Plugin()], load_entry_points=False)
    settings = Settings(user_db_path=folder, compile_parallel_level=1)
    return DeviceStation(Order(strategy=strategy), None, registry, settings), backend


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("seed", [None, Seed(("mock-tunable",), {"mock-tunable": {"tile": 4}})])
def test_measuring_compiles_only_what_fails(
    tmp_path: Path, strategy: Strategy, seed: Seed | None
) -> None:
    task = Task(problem=_PROBLEM.key, seed=seed)
    compiler, _ = _station(tmp_path / "here", strategy)
    binaries = compiler.compile([task])
    assert binaries
    station, backend = _station(tmp_path / "there", strategy)
    station.accept(binaries)
    outcome = station.measure(task)
    # The program that does not build has no binary to hand over.
    assert outcome.compiled == backend.counters.compiles == (1 if seed is None else 0)
    assert outcome.failure == ""
    assert outcome.measured == (1 if seed is not None else outcome.measured)


def test_what_is_recorded_is_not_compiled_again(tmp_path: Path) -> None:
    station, _ = _station(tmp_path / "here", Strategy.DEFAULTS)
    measured = station.measure(Task(problem=_PROBLEM.key)).found
    assert measured.entry is not None
    again, backend = _station(tmp_path / "there", Strategy.DEFAULTS)
    assert again.compile([Task(problem=_PROBLEM.key, known=measured)]) == ()
    # A solver that no search has decided about is compiled, and nothing else.
    newer = msgspec.structs.replace(
        measured.entry,
        considered=tuple(one for one in measured.entry.considered if "mock-tunable" not in one),
    )
    task = Task(problem=_PROBLEM.key, known=msgspec.structs.replace(measured, entry=newer))
    assert len(again.compile([task])) == backend.counters.compiles == 1


def test_a_config_of_a_neighbour_is_taken_where_it_is_legal(tmp_path: Path) -> None:
    station, _ = _station(tmp_path, Strategy.NEIGHBOURS)
    for tile, expected in ((4, 4), (16, 1)):
        seed = Seed(("mock-tunable",), {"mock-tunable": {"tile": tile}})
        entry = station.measure(Task(problem=_PROBLEM.key, seed=seed)).found.entry
        assert entry is not None
        assert entry.records[0].config == {"tile": expected}


def test_identity_depends_on_strategy_and_policy(tmp_path: Path) -> None:
    fingerprints = {_station(tmp_path, strategy)[0].identity.fingerprint for strategy in Strategy}
    assert len(fingerprints) == 3
