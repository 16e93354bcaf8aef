"""Writing packs: what a database knows about one device."""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb

from convfind.errors import FindDbError
from convfind.finddb.key import SCHEMA, stored_key
from convfind.finddb.table import CONFIG, FIND, QUARANTINE, Table
from convfind_finddb_tools.database import Snapshot, plain_errors
from convfind_finddb_tools.entry import first_keys, split_key
from convfind_finddb_tools.exporting import replacing
from convfind_finddb_tools.pack import SUFFIX, VERSION, Manifest, Pack, append_manifest, read_pack
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.validity import key_fault, value_fault

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


def write_pack(snapshot: Snapshot, device: str, selection: Selection, output: Path) -> PackReport:
    """Write what is selected of a device's records into a pack, complete or not at all.

    The same records always give the same bytes.

    Raises:
        FindDbError: nothing is selected, or the file cannot be written.
    """
    if output.suffix != SUFFIX:
        msg = f"{output}: the name of a pack ends in {SUFFIX}, as those of all databases"
        raise FindDbError(msg)
    counts: Counter[str] = Counter()
    drivers: set[str] = set()
    packages: set[str] = set()
    newest = [0]

    def counted(table: Table[Any]) -> Iterator[tuple[bytes, bytes]]:
        prefix = f"{SCHEMA}|{device}|".encode()
        for key, sealed in snapshot.items(table.name, prefix):
            value = table.unpack(key, sealed)
            if value is None or key_fault(key.decode(errors="replace")):
                counts["damaged"] += 1
                continue
            value = selection.narrowed(table.name, key, value)
            if value is None:
                continue
            if value_fault(table.name, value):
                counts["damaged"] += 1
                continue
            counts[table.name] += 1
            if table is FIND:
                counts["records"] += len(value.records)
                drivers.update(record.driver for record in value.records)
                packages.update(record.package for record in value.records)
                newest.extend(record.created for record in value.records)
                newest[:] = [max(newest)]
            yield stored_key(key), table.pack(key, value)

    with tempfile.TemporaryDirectory(prefix="convfind-pack-") as folder:
        draft = Path(folder) / "draft.lmdb"
        room = 4 * snapshot.path.stat().st_size + _ROOM
        _write_pages(draft, {table.name: counted(table) for table in TABLES}, room)
        if not counts["records"]:
            msg = f"{snapshot.path} has no records of {device} that the filters choose"
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
            newest=newest[0],
        )
        with draft.open("r+b") as file:
            append_manifest(file, manifest)
        copy_file(draft, output)
    return PackReport(read_pack(output), counts["damaged"])


def copy_file(source: Path, output: Path) -> None:
    """Copy a file that is complete under its name or not there, for everybody to read only."""
    with replacing(output, mode=0o444) as file, source.open("rb") as read:
        while chunk := read.read(1 << 20):
            file.write(chunk)


def _write_pages(draft: Path, tables: dict[str, Iterator[tuple[bytes, bytes]]], room: int) -> None:
    """Write a database without free space."""
    grown = draft.with_name("grown.lmdb")
    with plain_errors(draft):
        with (
            lmdb.open(
                *(str(grown),),
                subdir=False,
                map_size=room,
                max_dbs=len(tables) + 1,
                lock=False,
                sync=False,
                lib_version=0,  # the format of LMDB 0.9
            ) as environment,
            environment.begin(write=True) as transaction,
        ):
            meta = environment.open_db(b"meta", txn=transaction)
            transaction.put(b"schema", str(SCHEMA).encode(), db=meta)
            for name, items in tables.items():
                handle = environment.open_db(name.encode(), txn=transaction)
                transaction.cursor(handle).putmulti(items, append=True)
        with (
            lmdb.open(str(grown), subdir=False, readonly=True, lock=False) as environment,
            draft.open("xb") as file,
        ):
            environment.copyfd(file.fileno(), compact=True)
