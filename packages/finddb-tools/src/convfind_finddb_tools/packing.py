"""Writing packs: a database's contents for one device."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from convfind.errors import FindDbError
from convfind.finddb.change import Change
from convfind.finddb.evidence import is_noisy
from convfind.finddb.key import SCHEMA, stored_key
from convfind.finddb.record import FindEntry
from convfind.finddb.roster import ROSTER, enrol
from convfind.finddb.table import CONFIG, FIND, QUARANTINE, Table
from convfind_finddb_tools.database import Snapshot, plain_errors
from convfind_finddb_tools.entry import first_keys, split_key
from convfind_finddb_tools.exporting import replacing
from convfind_finddb_tools.pack import SUFFIX, VERSION, Manifest, Pack, append_manifest, read_pack
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
    if output.suffix != SUFFIX:
        msg = f"{output}: the name of a pack ends in {SUFFIX}, as those of all databases"
        raise FindDbError(msg)
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

    with tempfile.TemporaryDirectory(prefix="convfind-pack-") as folder:
        draft = Path(folder) / "draft.lmdb"
        room = 4 * snapshot.path.stat().st_size + _ROOM
        entries = _chosen(snapshot, FIND, device, selection)
        names = {name for _, entry in entries if entry for name in entry.considered}
        _write_pages(draft, counted, tuple(sorted(names)), room)
        if not counts["records"]:
            msg = f"{snapshot.path} has no records of {device} that the filters choose"
            raise FindDbError(msg)
        if noisy and not allow_noisy:
            msg = (
                f"{len(noisy):,} of {counts['records']:,} records were measured on a busy machine, "
                f"such as {noisy[0]}; measure them again on a quiet one, or give --allow-noisy"
            )
            raise FindDbError(msg)
        manifest = Manifest(
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
        with draft.open("r+b") as file:
            append_manifest(file, manifest)
        copy_file(draft, output)
    return PackReport(read_pack(output), counts["damaged"])


def _noisy(key: bytes, entry: FindEntry) -> Iterator[str]:
    """Name the noisy records of an entry."""
    for record in entry.records:
        if is_noisy(record.time_ms, record.spread_ms):
            share = record.spread_ms / record.time_ms
            yield f"{record.solver} of {split_key(key)[1]} with a spread of {share:.0%}"


def copy_file(source: Path, output: Path) -> None:
    """Copy a file atomically, readable by everybody and writable by nobody."""
    with replacing(output, mode=0o444) as file, source.open("rb") as read:
        while chunk := read.read(1 << 20):
            file.write(chunk)


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


def _write_pages(
    draft: Path,
    items: Callable[[Table[Any]], Iterator[tuple[bytes, Any]]],
    names: tuple[str, ...],
    room: int,
) -> None:
    """Write a database without free space, with one roster of all names that its entries have."""
    grown = draft.with_name("grown.lmdb")
    with plain_errors(draft):
        with (
            lmdb.open(
                os.fsencode(grown),
                subdir=False,
                map_size=room,
                max_dbs=len(TABLES) + 2,
                lock=False,
                sync=False,
                lib_version=0,  # the format of LMDB 0.9
            ) as environment,
            environment.begin(write=True) as transaction,
        ):
            meta = environment.open_db(b"meta", txn=transaction)
            transaction.put(b"schema", str(SCHEMA).encode(), db=meta)
            handles = {
                name: environment.open_db(name.encode(), txn=transaction)
                for name in (*(table.name for table in TABLES), ROSTER)
            }
            change = Change(handles.get, transaction)
            enrol(names, change)
            for table in TABLES:
                sealed = (
                    (stored_key(key), table.pack(key, value, change)) for key, value in items(table)
                )
                transaction.cursor(handles[table.name]).putmulti(sealed, append=True)
        with (
            lmdb.open(os.fsencode(grown), subdir=False, readonly=True, lock=False) as environment,
            draft.open("xb") as file,
        ):
            environment.copyfd(file.fileno(), compact=True)
