"""Writing packs: a database's contents for one device."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from convfind.errors import FindDbError
from convfind.finddb.change import Change
from convfind.finddb.environment import Layout, Transaction
from convfind.finddb.evidence import is_noisy
from convfind.finddb.key import SCHEMA, stored_key
from convfind.finddb.pack import VERSION, Manifest, Pack
from convfind.finddb.pack_writing import write_pack_file
from convfind.finddb.record import FindEntry
from convfind.finddb.roster import ROSTER, enrol
from convfind.finddb.table import CONFIG, FIND, QUARANTINE, Table
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.entry import first_keys, split_key
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.validity import key_fault, value_fault

T = TypeVar("T")

TABLES: tuple[Table[Any], ...] = (FIND, CONFIG, QUARANTINE)

_ROOM = 64 << 20


@dataclasses.dataclass(slots=True)
class PackReport:
    """The pack that was written, and how many values were left out because they are damaged."""

    pack: Pack
    damaged: int


def device_to_pack(snapshot: Snapshot, text: str) -> str:
    """The identity of the only device that a text means: all of it, or a part in any case.

    Raises:
        FindDbError: there is none, or several; lists them.
    """
    found = dict.fromkeys(
        split_key(key)[0] for table in TABLES for key in first_keys(snapshot, table.name)
    )
    chosen = [one for one in found if one == text]
    chosen = chosen or [one for one in found if text.lower() in one.lower()]
    if len(chosen) == 1:
        return chosen[0]
    if not found:
        msg = f"{snapshot.path} holds no records of convfind to pack"
    elif not chosen:
        msg = f"{snapshot.path} has no records of {text!r}; it has {'; '.join(found)}"
    else:
        msg = f"{text!r} means {len(chosen)} devices; write more of one: {'; '.join(chosen)}"
    raise FindDbError(msg)


def write_pack(
    snapshot: Snapshot,
    device: str,
    selection: Selection,
    output: Path,
    *,
    allow_noisy: bool = False,
) -> PackReport:
    """Write what is selected of a device's records into a pack, complete or not at all.

    The same records always give the same bytes.

    Raises:
        FindDbError: nothing is selected, some records are noisy and that is not allowed, or the
            file cannot be written.
    """
    counts: Counter[str] = Counter()
    drivers: set[str] = set()
    packages: set[str] = set()
    newest = [0]
    noisy: list[str] = []
    noise = [0.0]

    def counted(table: Table[Any]) -> Iterator[tuple[bytes, Any]]:
        for key, value in _chosen(snapshot, table, device, selection):
            if value is None:
                counts["damaged"] += 1
                continue
            counts[table.name] += 1
            if table is FIND:
                counts["records"] += len(value.records)
                drivers.update(record.driver for record in value.records)
                packages.update(record.package for record in value.records)
                newest.extend(record.created for record in value.records)
                newest[:] = [max(newest)]
                noise.extend(one.spread_ms / one.time_ms for one in value.records)
                noise[:] = [max(noise)]
                noisy.extend(_noisy(key, value))
            yield key, value

    entries = _chosen(snapshot, FIND, device, selection)
    names = {name for _, entry in entries if entry for name in entry.considered}

    def fill(handles: Mapping[str, Any], transaction: Transaction) -> Manifest:
        change = Change(handles.get, transaction)
        enrol(tuple(sorted(names)), change)
        for table in TABLES:
            sealed = (
                (stored_key(key), table.pack(key, value, change)) for key, value in counted(table)
            )
            transaction.cursor(handles[table.name]).putmulti(sealed, append=True)
        if not counts["records"]:
            msg = f"{snapshot.path} has no records of {device} that the filters choose"
            raise FindDbError(msg)
        if noisy and not allow_noisy:
            msg = (
                f"{len(noisy):,} of {counts['records']:,} records were measured on a busy machine, "
                f"such as {noisy[0]}; measure them again on a quiet one, or give --allow-noisy"
            )
            raise FindDbError(msg)
        return Manifest(
            version=VERSION,
            schema=SCHEMA,
            device=device,
            problems=counts[FIND.name],
            records=counts["records"],
            configs=counts[CONFIG.name],
            quarantined=counts[QUARANTINE.name],
            drivers=sorted(drivers),
            packages=sorted(packages),
            noise=round(noise[0], 4),
            newest=newest[0],
        )

    room = 4 * snapshot.path.stat().st_size + _ROOM
    layout = Layout((*(table.name for table in TABLES), ROSTER), SCHEMA)
    return PackReport(write_pack_file(output, layout, room, fill), counts["damaged"])


def _noisy(key: bytes, entry: FindEntry) -> Iterator[str]:
    """Name the noisy records of an entry."""
    for record in entry.records:
        if is_noisy(record.time_ms, record.spread_ms):
            share = record.spread_ms / record.time_ms
            yield f"{record.solver} of {split_key(key)[1]} with a spread of {share:.0%}"


def _chosen(
    snapshot: Snapshot, table: Table[T], device: str, selection: Selection
) -> Iterator[tuple[bytes, T | None]]:
    """Keys of a device and what is selected of their values, None for a damaged one."""
    for key, sealed in snapshot.items(table.name, f"{SCHEMA}|{device}|".encode()):
        value = table.unpack(key, sealed, snapshot.get)
        if value is None or key_fault(key.decode(errors="replace")):
            yield key, None
            continue
        value = selection.narrowed(table.name, key, value)
        if value is not None:
            yield key, None if value_fault(table.name, value) else value
