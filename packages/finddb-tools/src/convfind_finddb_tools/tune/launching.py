"""Choosing the workers of a run: this process, workers of this machine, or a cluster's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import lmdb
import msgspec

import convfind
from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError, FindDbError
from convfind.plugins.registry import Registry
from convfind.settings import Settings
from convfind_finddb_tools.tune.fleet import Fleet, LocalFleet
from convfind_finddb_tools.tune.order import Order
from convfind_finddb_tools.tune.replay import ReplayStation
from convfind_finddb_tools.tune.shard import Shard
from convfind_finddb_tools.tune.station import DeviceStation, Station


@dataclass(frozen=True, slots=True)
class Launch:
    """Where to tune.

    Attributes:
        workers: how many to start on this machine; 0: this process tunes.
        compilers: how many of them only compile; None: chosen by kind of device and cores.
        scheduler: address of a running scheduler, whose workers are used instead.
    """

    workers: int = 0
    compilers: int | None = None
    scheduler: str | None = None


def open_fleet(order: Order, launch: Launch, registry: Registry, settings: Settings) -> Fleet:
    """Start workers, or find them.

    Raises:
        ConvfindError: a device, Dask or a scheduler is missing; says what to do.
    """
    if launch.scheduler is not None or launch.workers:
        from convfind_finddb_tools.tune.cluster import DaskFleet

        if launch.scheduler is not None:
            return DaskFleet.connect(order, launch.scheduler)
        compilers = launch.compilers or 0
        if not order.replay:
            devices, kind = _placed(order, launch.workers, registry, settings)
            order = msgspec.structs.replace(order, devices=devices)
            if kind is DeviceKind.CPU:
                measuring = len(devices)
                return DaskFleet.start(order, measuring, compilers + launch.workers - measuring)
            if launch.compilers is None:
                compilers = min(2 * launch.workers, max(_cores() - launch.workers, 0))
        return DaskFleet.start(order, launch.workers, compilers)
    device = order.devices[0] if order.devices else None
    station: Station = (
        ReplayStation(order) if order.replay else DeviceStation(order, device, registry, settings)
    )
    try:
        return LocalFleet(station, Shard(Path(order.shards) / "here"))
    except (OSError, lmdb.Error) as exc:
        station.close()
        msg = f"{order.shards} cannot be used: {exc}"
        raise FindDbError(msg) from exc


def _placed(
    order: Order, workers: int, registry: Registry, settings: Settings
) -> tuple[tuple[str, ...], DeviceKind]:
    """Name a device for each worker that measures: on one CPU that is one of them."""
    name = order.devices[0] if order.devices else settings.device
    found = convfind.devices(registry=registry).devices
    if len(order.devices) > 1:
        chosen = [(one, _target(one, found)) for one in order.devices]
    else:
        with convfind.open(name, registry=registry, settings=settings) as handle:
            first = handle.target
        chosen = [(one, target) for one, target in found if target.identity == first.identity]
    kinds = {target.kind for _, target in chosen}
    names = tuple(one for one, _ in chosen)
    if kinds == {DeviceKind.CPU} and len(chosen) == 1:
        return names, DeviceKind.CPU
    if workers > len(chosen):
        msg = (
            f"{workers} workers need as many equal devices, and there are {len(chosen)}: "
            f"{', '.join(names) or 'none'}"
        )
        raise DeviceError(msg)
    return names[:workers], next(iter(kinds))


def _target(name: str, found: tuple[tuple[str, Target], ...]) -> Target:
    for known, target in found:
        if known == name:
            return target
    names = ", ".join(known for known, _ in found) or "none"
    msg = f"no device {name!r}; with several, name each as `convfind devices` does: {names}"
    raise DeviceError(msg)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
