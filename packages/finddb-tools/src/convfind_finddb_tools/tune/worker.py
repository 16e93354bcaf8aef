"""Code that runs on a cluster's worker: one station per process, and the worker's shard."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import lmdb
import msgspec

from convfind.errors import ConvfindError
from convfind_finddb_tools.tune.order import Identity, Order, Outcome, Task
from convfind_finddb_tools.tune.replay import ReplayStation
from convfind_finddb_tools.tune.shard import Shard
from convfind_finddb_tools.tune.station import Binaries, DeviceStation, Station

_COMMIT_SECONDS = 0.01  # results of replays share a commit; every real measurement has its own

_stations: dict[bytes, Station] = {}  # by order; a process has one device and needs it open once
_shards: dict[str, Shard] = {}


@dataclass(frozen=True, slots=True)
class Broken:
    """A worker's failure in words, because its exception may be unknown elsewhere."""

    reason: str


def identify(order: Order) -> Identity | Broken:
    """Return the identity of this worker."""
    try:
        return station_for(order).identity
    except Exception as exc:
        return _broken(exc)


def compile_batch(order: Order, tasks: Sequence[Task]) -> Binaries:
    """Compile what a batch needs; what goes wrong, measuring will tell."""
    try:
        return station_for(order).compile(tasks)
    except Exception:
        return ()


def measure_batch(
    order: Order, ticket: str, tasks: Sequence[Task], binaries: Binaries = ()
) -> tuple[Outcome, ...] | Broken | None:
    """Do the tasks in order; each result is in the shard before it is reported.

    Returns None where the ticket is used: Dask repeats what a worker had finished when it died and
    took the result with it, but the results are in its shard.
    """
    try:
        if not _first_use(order, ticket):
            return None
        return _measure(order, tasks, binaries)
    except Exception as exc:
        return _broken(exc)


def _measure(order: Order, tasks: Sequence[Task], binaries: Binaries) -> tuple[Outcome, ...]:
    station = station_for(order)
    station.accept(binaries)
    shard = _shard(order)
    name = worker_name()
    outcomes: list[Outcome] = []
    fresh: list[Outcome] = []
    committed = time.monotonic()
    for task in tasks:
        outcome = msgspec.structs.replace(station.measure(task), worker=name)
        outcomes.append(outcome)
        fresh.append(outcome)
        if time.monotonic() - committed >= _COMMIT_SECONDS:
            shard.commit(fresh)
            fresh = []
            committed = time.monotonic()
    shard.commit(fresh)
    return tuple(outcomes)


def _broken(exc: Exception) -> Broken:
    return Broken(str(exc) if isinstance(exc, ConvfindError) else f"{type(exc).__name__}: {exc}")


def release(order: Order) -> None:
    """Let go of the device and the shard."""
    station = _stations.pop(msgspec.msgpack.encode(order), None)
    if station is not None:
        station.close()
    shard = _shards.pop(order.shards, None)
    if shard is not None:
        shard.close()


def station_for(order: Order) -> Station:
    """The station of this process, opened at the first task."""
    key = msgspec.msgpack.encode(order)
    station = _stations.get(key)
    if station is None:
        if order.replay:
            station = ReplayStation(order)
        else:
            devices = order.devices
            device = devices[_number() % len(devices)] if devices else None
            station = DeviceStation(order, device)
        _stations[key] = station
    return station


def worker_name() -> str:
    """The worker's name with its machine's, fit for a folder."""
    worker = import_module("distributed").get_worker()
    return re.sub(r"[^A-Za-z0-9.]+", "-", f"{socket.gethostname()}-{worker.name}")


def _number() -> int:
    """The number at the end of a local worker's name."""
    found = re.search(r"-([0-9]+)$", str(import_module("distributed").get_worker().name))
    return int(found[1]) if found else 0


def _first_use(order: Order, ticket: str) -> bool:
    """Use a ticket up; where workers see no common folder every use is the first."""
    folder = Path(order.shards) / "tickets"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ticket).touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        pass
    return True


def _shard(order: Order) -> Shard:
    shard = _shards.get(order.shards)
    if shard is None:
        try:
            shard = Shard(Path(order.shards) / worker_name())
        except (OSError, lmdb.Error):  # a folder of the client's machine, which this one lacks
            private = Path(tempfile.gettempdir(), f"convfind-tune-{os.getuid()}")
            shard = Shard(private / worker_name())
        _shards[order.shards] = shard
    return shard
