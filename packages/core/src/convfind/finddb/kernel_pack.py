"""Packs of kernels: programs compiled for a device, in a file that other machines install."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from convfind.device.target import Target
from convfind.errors import FindDbError
from convfind.finddb.environment import Layout, Transaction
from convfind.finddb.key import SCHEMA, seal, stored_key
from convfind.finddb.pack import VERSION, Manifest, Pack
from convfind.finddb.pack_writing import write_pack_file

#: Sealed binaries by key; nothing else is in such a pack.
KERNEL = "kernel"
KERNELS = Layout(tables=(KERNEL,), schema=SCHEMA)

_ROOM = 64 << 20


def write_kernels(output: Path, target: Target, binaries: Iterable[tuple[str, bytes]]) -> Pack:
    """Write binaries by key, all by the compiler of a device, into a pack.

    Raises:
        FindDbError: there are none, or the file cannot be written.
    """
    in_order = sorted({key.encode(): one for key, one in binaries}.items())
    if not in_order:
        msg = f"nothing compiles for {target.identity} that {output} could hold"
        raise FindDbError(msg)

    def fill(handles: Mapping[str, Any], transaction: Transaction) -> Manifest:
        for key, binary in in_order:
            sealed = seal(key, binary)
            transaction.put(stored_key(key), sealed, db=handles[KERNEL], append=True)
        return Manifest(
            version=VERSION,
            schema=KERNELS.schema,
            device=target.identity,
            problems=0,
            records=0,
            kernels=len(in_order),
            compiler=target.compiler,
        )

    room = 2 * sum(len(one) for _, one in in_order) + _ROOM
    return write_pack_file(output, KERNELS, room, fill)
