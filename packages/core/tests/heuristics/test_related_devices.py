"""What models and records of a related device say about one that nobody knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from convfind.device.target import DeviceKind
from convfind.find.known import known
from convfind.finddb import FindEntry, FindRecord
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.heuristics import NotApplicable, TrainedHeuristic
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.solver import versioned_id
from convfind.testing import MockBackend, mock_solvers
from convfind.testing.mock_backend import MOCK_TARGET

PROBLEM = ConvProblem.forward(x=(4, 4, 8, 8), w=(8, 4, 3, 3), padding=1)
SOLVERS = [solver for solver in mock_solvers() if not solver.is_last_resort]
HERE = dataclasses.replace(MOCK_TARGET, name="a later model", identity="")
OTHER_ARCH = dataclasses.replace(HERE, arch="another", identity="")
OTHER_RUNTIME = dataclasses.replace(HERE, platform="another", identity="")
GPU = dataclasses.replace(OTHER_RUNTIME, kind=DeviceKind.GPU)


@pytest.fixture
def opened(make_model: Callable[..., Path], tmp_path: Path) -> Iterator[Callable[[Any], Handle]]:
    """Opens a device where a model of `MOCK_TARGET` is installed."""
    model, handles = make_model(), []

    class Plugin:
        @hookimpl
        def convfind_register_solvers(self, register: Any) -> None:
            register.extend(mock_solvers())

        @hookimpl
        def convfind_register_heuristics(self, register: Any) -> None:
            register.add(TrainedHeuristic("model", model))

    def open_device(target: Any) -> Handle:
        registry = Registry.build([Plugin()], load_entry_points=False)
        settings = Settings(user_db_path=tmp_path / "db")
        handles.append(handle_for(MockBackend([target]).open(), registry, settings))
        return handles[-1]

    yield open_device
    for handle in handles:
        handle.close()


def sources(handle: Handle) -> set[str]:
    facts = known(PROBLEM, handle.session, SOLVERS, Policy())
    return {forecast.source for forecast in facts.forecasts.values()}


def test_the_model_of_a_related_device_says_who_is_ahead(opened: Callable[[Any], Handle]) -> None:
    handle = opened(HERE)
    (heuristic,) = handle.registry.heuristics
    right = heuristic.predict(PROBLEM, MOCK_TARGET, SOLVERS)
    assert not isinstance(right, NotApplicable)
    facts = known(PROBLEM, handle.session, SOLVERS, Policy())
    assert sources(handle) == {"model of a related device"}
    fastest = min(facts.forecasts, key=lambda name: facts.forecasts[name].time_ms)
    assert fastest == right[0].solver


def test_a_gpu_is_known_through_every_runtime(opened: Callable[[Any], Handle]) -> None:
    assert sources(opened(GPU)) == {"model of a related device"}


@pytest.mark.parametrize("target", [OTHER_ARCH, OTHER_RUNTIME])
def test_a_device_of_another_kind_is_no_relative(
    opened: Callable[[Any], Handle], target: Any
) -> None:
    assert sources(opened(target)) == {"index"}


def test_a_model_is_asked_about_the_solvers_that_it_knows(
    make_model: Callable[..., Path],
) -> None:
    few = [versioned_id(solver) for solver in SOLVERS[:2]]
    heuristic = TrainedHeuristic("model", make_model(*few))
    times = heuristic.times_on(MOCK_TARGET.identity, PROBLEM, HERE, SOLVERS)
    assert set(times) == {solver.solver_id for solver in SOLVERS[:2]}


def test_the_record_of_a_related_device_counts_more_than_its_model(
    opened: Callable[[Any], Handle],
) -> None:
    handle = opened(HERE)
    record = FindRecord(
        solver=SOLVERS[0].solver_id,
        solver_version=SOLVERS[0].version,
        package="mock 1",
        algorithm="direct",
        time_ms=1.0,
    )
    handle.database.store(MOCK_TARGET, PROBLEM, FindEntry(records=(record,)))
    assert sources(handle) == {"record of a related device", "model of a related device"}
