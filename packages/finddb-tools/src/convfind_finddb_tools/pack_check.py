"""Checking all of a pack before it is trusted: anybody may have written it."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from lmdb.verify import VerifyError, verify

from convfind.errors import FindDbCorruptError, FindDbError
from convfind.finddb.file_check import fault
from convfind.finddb.kernel_pack import KERNEL
from convfind.finddb.key import SCHEMA, unseal
from convfind.finddb.pack import SUFFIX, Pack, read_pack
from convfind.finddb.roster import NEWEST, ROSTER, roster_names
from convfind.finddb.table import FIND
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.packing import TABLES
from convfind_finddb_tools.validity import key_fault, value_fault


def check_pack(pack: Pack) -> None:
    """Raise `FindDbCorruptError` if any value of a pack is invalid or contradicts its manifest.

    The hash proves that a file arrived unchanged, not who made it. LMDB trusts its pages, so
    their structure is checked, in a copy, before LMDB sees them.
    """
    with tempfile.TemporaryDirectory(prefix="convfind-pack-") as folder:
        copy = Path(folder) / f"pack{SUFFIX}"
        shutil.copyfile(pack.path, copy)
        why = _change(pack, copy) or fault(copy) or _structure_fault(copy)
        if why is None:
            try:
                with Snapshot(copy) as snapshot:
                    why = _content_fault(pack, snapshot)
            except FindDbError as exc:
                why = str(exc).replace(str(copy), "its database")
    if why is not None:
        msg = f"{pack.path} is no pack to install: {why}"
        raise FindDbCorruptError(msg)


def _change(pack: Pack, copy: Path) -> str | None:
    try:
        is_same = read_pack(copy).sha256 == pack.sha256
    except FindDbError:
        is_same = False
    return None if is_same else "it was changed while it was being checked"


def _structure_fault(file: Path) -> str | None:
    try:
        findings = verify(str(file))  # type: ignore[no-untyped-call]
    except (VerifyError, OSError) as exc:
        return f"its database cannot be read: {exc}"
    return f"its database is damaged: {findings[0]}" if findings else None


def _content_fault(pack: Pack, snapshot: Snapshot) -> str | None:
    manifest = pack.manifest
    begin = f"{SCHEMA}|{manifest.device}|".encode()
    counts: Counter[str] = Counter()
    for key, sealed in snapshot.items(ROSTER):
        if key != NEWEST and not roster_names(key, sealed):
            return f"its roster {key.hex()} is damaged"
    for key, sealed in snapshot.items(KERNEL):
        if unseal(key, sealed) is None:
            return f"the kernel {key.decode(errors='replace')[:120]!r} is damaged"
        counts["kernels"] += 1
    for table in TABLES:
        for key, sealed in snapshot.items(table.name):
            value = table.unpack(key, sealed, snapshot.get)
            name = key.decode(errors="replace")
            if value is None:
                return f"the value of {name[:120]!r} in {table.name!r} is damaged"
            if not key.startswith(begin):
                return f"{name[:120]!r} is not of its device, {manifest.device}"
            why = key_fault(name) or value_fault(table.name, value)
            if why is not None:
                return why
            counts[table.name] += 1
            counts["records"] += len(value.records) if table is FIND else 0
    said = (manifest.problems, manifest.configs, manifest.quarantined, manifest.records)
    found = (*(counts[table.name] for table in TABLES), counts["records"])
    if said != found:
        return f"its manifest counts {said} problems, configs, quarantines, records; it has {found}"
    if manifest.kernels != counts["kernels"] or bool(manifest.compiler) != bool(manifest.kernels):
        return f"its manifest counts {manifest.kernels} kernels; it has {counts['kernels']}"
    if manifest.kernels and any(found):
        return "it holds kernels and records; a pack holds one or the other"
    return None
