"""Who measures and who compiles, by the devices that are there."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry
from convfind.settings import Settings
from convfind.testing import MockBackend
from convfind.testing.mock_backend import MOCK_TARGET
from convfind_finddb_tools.tune.cluster import DaskFleet
from convfind_finddb_tools.tune.launching import Launch, open_fleet
from convfind_finddb_tools.tune.order import Order, Strategy

GPU = dataclasses.replace(MOCK_TARGET, kind=DeviceKind.GPU)
Started = tuple[tuple[str, ...], int, int]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Started]:
    """Devices, workers that measure, and those that compile, of each start of a cluster."""
    starts: list[Started] = []

    def start(order: Order, workers: int, compilers: int) -> Any:
        starts.append((order.devices, workers, compilers))

    monkeypatch.setattr(DaskFleet, "start", start)
    return starts


def launch(folder: Path, targets: tuple[Target, ...], how: Launch, *devices: str) -> None:
    class Plugin:
        @hookimpl
        def convfind_register_backends(self, register: BackendRegistry) -> None:
            register.add(MockBackend(targets))

    registry = Registry.build([Plugin()], load_entry_points=False)
    order = Order(strategy=Strategy.DEFAULTS, devices=devices)
    open_fleet(order, how, registry, Settings(user_db_path=folder))


@pytest.mark.parametrize(("workers", "compilers"), [(1, None), (2, None), (3, None), (2, 4)])
def test_one_worker_measures_on_a_cpu_and_the_others_compile(
    started: list[Started], tmp_path: Path, workers: int, compilers: int | None
) -> None:
    launch(tmp_path, (MOCK_TARGET,), Launch(workers, compilers))
    assert started == [(("mock:0",), 1, workers - 1 + (compilers or 0))]


def test_each_gpu_has_a_worker_that_measures(started: list[Started], tmp_path: Path) -> None:
    launch(tmp_path, (GPU, GPU, GPU), Launch(2, 5))
    launch(tmp_path, (GPU, GPU, GPU), Launch(2, 0), "mock:2", "mock:1")
    assert started == [(("mock:0", "mock:1"), 2, 5), (("mock:2", "mock:1"), 2, 0)]


def test_more_workers_than_gpus_are_refused(started: list[Started], tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="3 workers need as many equal devices"):
        launch(tmp_path, (GPU, GPU), Launch(3))
    assert not started
