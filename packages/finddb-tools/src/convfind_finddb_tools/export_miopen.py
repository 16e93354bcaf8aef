"""Exporting foreign records as MIOpen's texts: find-db in version 2, and perf-db."""

from __future__ import annotations

from typing import BinaryIO

from convfind.errors import FindDbError
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.entry import first_keys
from convfind_finddb_tools.foreign import ForeignDevice, device_of_key
from convfind_finddb_tools.sealed import open_foreign
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.text_kinds import PERF_TEXT, TextKind


def the_device(snapshot: Snapshot, kind: TextKind, name: str | None) -> ForeignDevice:
    """The device to export, the only one where no name is given.

    Raises:
        FindDbError: there is none, or several; lists them.
    """
    devices = [device_of_key(key) for key in first_keys(snapshot, kind.table)]
    names = ", ".join(f"{device.name}.{device.backend}" for device in devices)
    if not devices:
        what = "tuned configs" if kind is PERF_TEXT else "records"
        msg = f"{snapshot.path} holds no {what} of MIOpen"
        raise FindDbError(msg)
    chosen = [one for one in devices if name in (None, one.name, f"{one.name}.{one.backend}")]
    if not chosen and name:
        chosen = [one for one in devices if name.lower() in one.identity.lower()]
    if not chosen:
        msg = f"{snapshot.path} holds no records of {name!r}; it has {names}"
        raise FindDbError(msg)
    if len(chosen) > 1:
        msg = f"a file of MIOpen's is for one device; choose one with --device: {names}"
        raise FindDbError(msg)
    return chosen[0]


def export_miopen(
    snapshot: Snapshot,
    kind: TextKind,
    device: ForeignDevice,
    output: BinaryIO,
    selection: Selection,
) -> tuple[int, int]:
    """Write what is selected of a device; returns how many were written, and were damaged."""
    written = damaged = 0
    for key, sealed in snapshot.items(kind.table, device.prefix):
        values = open_foreign(key, sealed, kind.table)
        if values is None:
            damaged += 1
            continue
        values = selection.narrowed(kind.table, key, values)
        if values is not None:
            output.write(b"%b=%b\n" % (key[len(device.prefix) :], values))
            written += 1
    return written, damaged
