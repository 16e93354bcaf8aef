"""Exporting foreign records as MIOpen's find-db text, version 2."""

from __future__ import annotations

from typing import BinaryIO

from convfind.errors import FindDbError
from convfind_finddb_tools.database import FOREIGN, Snapshot
from convfind_finddb_tools.entry import first_keys
from convfind_finddb_tools.foreign import ForeignDevice, device_of_key
from convfind_finddb_tools.sealed import open_foreign


def foreign_devices(snapshot: Snapshot) -> list[ForeignDevice]:
    """The devices that a database has foreign records of."""
    return [device_of_key(key) for key in first_keys(snapshot, FOREIGN)]


def the_device(snapshot: Snapshot, name: str | None) -> ForeignDevice:
    """The device to export, the only one where no name is given.

    Raises:
        FindDbError: there is none, or several; lists them.
    """
    devices = foreign_devices(snapshot)
    names = ", ".join(f"{device.name}.{device.backend}" for device in devices)
    if not devices:
        msg = f"{snapshot.path} holds no records of MIOpen"
        raise FindDbError(msg)
    chosen = [one for one in devices if name in (None, one.name, f"{one.name}.{one.backend}")]
    if not chosen:
        msg = f"{snapshot.path} holds no records of {name!r}; it has {names}"
        raise FindDbError(msg)
    if len(chosen) > 1:
        msg = f"a file of MIOpen's is for one device; choose one with --device: {names}"
        raise FindDbError(msg)
    return chosen[0]


def export_miopen(snapshot: Snapshot, device: ForeignDevice, output: BinaryIO) -> tuple[int, int]:
    """Write the records of a device; returns how many were written, and were damaged."""
    written = damaged = 0
    for key, sealed in snapshot.items(FOREIGN, device.prefix):
        values = open_foreign(key, sealed)
        if values is None:
            damaged += 1
            continue
        output.write(b"%b=%b\n" % (key[len(device.prefix) :], values))
        written += 1
    return written, damaged
