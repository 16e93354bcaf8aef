"""Measuring the most used layers of a pack here, before its records are trusted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from convfind.device.target import DeviceKind, Target
from convfind.errors import FindDbError
from convfind.finddb.pack import Pack
from convfind.finddb.record import FindRecord
from convfind.handle import Handle
from convfind.plugins.registry import Registry
from convfind.settings import Settings
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.drift import Drift, measure_again
from convfind_finddb_tools.entry import own_entries
from convfind_finddb_tools.looking import open_over
from convfind_finddb_tools.tune.workload import read_workload, workload_path

#: A recorded time may differ from one measured here by this share of the lesser one: clocks and
#: neighbours differ between machines of a model.
TOLERANCE = 0.5

#: Milliseconds by which a launch may differ between two processes: a CPU's threads, once placed,
#: may wake at once or late in every one of them.
_LAUNCH_MS = {DeviceKind.CPU: 0.05}
_LAUNCH_MS_ELSEWHERE = 0.005

#: A contradicted record is measured so often: a busy moment passes, a wrong record stays.
_TRIES = 3


def time_pack(
    pack: Pack,
    most: int,
    devices: Mapping[str, Target],
    registry: Registry,
    settings: Settings,
) -> list[Drift]:
    """Measure the records of the most used layers of a pack on the device that it is for.

    Layers count by their time and how often the workload beside the user's database has them; once
    each without one. A solver that is not installed is listed and contradicts nothing.

    Raises:
        FindDbError: the device is not here, or a record contradicts what was measured.
    """
    if pack.manifest.compiler:
        raise FindDbError(f"{pack.path} has no records to measure; leave out --verify")
    identity = pack.manifest.device
    device = next((name for name, one in devices.items() if identity in one.identities), None)
    if device is None:
        raise FindDbError(
            f"{pack.path} is for {pack.manifest.device}, which is not here to measure on; "
            "leave out --verify"
        )
    records = _most_used(pack, most, _occurrences(settings.user_db_path))
    with open_over(device, [pack.path], registry, settings) as handle:
        found = [_settled(handle, record) for record in records]
    for one in found:
        if one.now_ms is not None and _contradicts(handle, one):
            raise FindDbError(
                f"{pack.path} contradicts this machine: {one.solver} takes {one.now_ms:.4g} ms "
                f"for {one.problem}, not {one.recorded_ms:.4g}; if the machine is busy, try again "
                "when it is idle, or leave out --verify"
            )
        if one.now_ms is None and handle.registry.find_solver(one.solver) is not None:
            raise FindDbError(
                f"{pack.path} contradicts this machine: {one.solver} for {one.problem}: "
                f"{one.reason}"
            )
    return found


def _settled(handle: Handle, record: tuple[str, FindRecord]) -> Drift:
    """Measure a record, again where it is contradicted; the closest measurement counts."""
    tried: list[Drift] = []
    while not tried or (len(tried) < _TRIES and _contradicts(handle, tried[-1])):
        tried += measure_again(handle, [record])
    return min(tried, key=lambda one: one.factor)


def _contradicts(handle: Handle, one: Drift) -> bool:
    launch_ms = _LAUNCH_MS.get(handle.target.kind, _LAUNCH_MS_ELSEWHERE)
    return one.exceeds(TOLERANCE) and abs((one.now_ms or 0.0) - one.recorded_ms) > launch_ms


def _most_used(pack: Pack, most: int, counts: Mapping[str, int]) -> list[tuple[str, FindRecord]]:
    with Snapshot(pack.path) as snapshot:
        winners = [
            (entry.problem, entry.winner.record)
            for entry in own_entries(snapshot)
            if entry.winner is not None and entry.winner.record is not None
        ]
    used = [one for one in winners if one[0] in counts] or winners
    used.sort(key=lambda one: (-counts.get(one[0], 1) * one[1].time_ms, one[0]))
    return used[:most]


def _occurrences(database: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in read_workload(workload_path(database)):
        counts[line.problem] = counts.get(line.problem, 0) + line.count
    return counts
