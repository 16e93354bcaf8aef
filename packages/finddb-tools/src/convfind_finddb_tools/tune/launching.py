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
from convfind.log import logger
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
            order, kind = _placed(order, launch.workers, registry, settings)
            if launch.compilers is None and kind is not DeviceKind.CPU:
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
) -> tuple[Order, DeviceKind]:
    """Give each worker a device of its own; the workers on a CPU divide its cores."""
    name = order.devices[0] if order.devices else settings.device
    found = convfind.devices(registry=registry).devices
    if len(order.devices) > 1:
        chosen = [(one, _target(one, found)) for one in order.devices]
    else:
        with convfind.open(name, registry=registry, settings=settings) as handle:
            first = handle.target
        chosen = [(one, target) for one, target in found if target.identity == first.identity]
    kinds = {target.kind for _, target in chosen}
    kind = next(iter(kinds))
    if kinds == {DeviceKind.CPU} and len(chosen) == 1:
        return msgspec.structs.replace(order, devices=(chosen[0][0],), cores=_shares(workers)), kind
    if workers > len(chosen):
        names = ", ".join(one for one, _ in chosen) or "none"
        msg = f"{workers} workers need as many equal devices, and there are {len(chosen)}: {names}"
        raise DeviceError(msg)
    return msgspec.structs.replace(order, devices=tuple(one for one, _ in chosen)), kind


def _target(name: str, found: tuple[tuple[str, Target], ...]) -> Target:
    for known, target in found:
        if known == name:
            return target
    names = ", ".join(known for known, _ in found) or "none"
    msg = f"no device {name!r}; with several, name each as `convfind devices` does: {names}"
    raise DeviceError(msg)


def _shares(workers: int) -> tuple[tuple[int, ...], ...]:
    """Cores of each of several workers on one CPU."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if workers < 2 or not cores:
        return ()
    if workers > len(cores):
        msg = f"{workers} workers need as many cores, and there are {len(cores)}"
        raise DeviceError(msg)
    each = len(cores) // workers
    logger.warning(
        "%d workers share the CPU: what they measure is recorded for a device of %d cores; "
        "--workers 1 tunes the whole CPU",
        *(workers, each),
    )
    return tuple(tuple(cores[each * n : each * (n + 1)]) for n in range(workers))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
