"""``convfind db pack``: writes a device's records into one file for other machines."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from convfind.cli.app import App, Command
from convfind.text import format_bytes
from convfind_finddb_tools.cli.options import PATH, chosen_database, takes_selection_without
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.packing import device_to_pack, write_pack
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.signature import sign_pack, signature_path


@click.command(cls=Command)
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.option("--device", required=True, metavar="ID", help="Its identity, or a part of it.")
@click.option(
    "--output", required=True, type=PATH, metavar="FILE", help="*.lmdb; replaced if it exists."
)
@click.option("--sign", "key", type=PATH, metavar="KEY", help="Sign it: writes FILE.sig.")
@click.option("--allow-noisy", is_flag=True, help="Also what was measured on a busy machine.")
@click.pass_obj
@takes_selection_without("origin", "device")
def pack(
    app: App,
    database: Path | None,
    device: str,
    output: Path,
    allow_noisy: bool,
    key: Path | None,
    selection: Selection,
) -> None:
    """Write a device's records, tuned configs and quarantine into a read-only, checksummed file.

    `convfind db install` installs the file on another machine with the same device, and packages
    of solvers ship it unchanged. It is a database too: stats, list, show and merge read it. The
    same records always give the same file. Records whose samples spread by more than a quarter of
    their time are refused, because the noise of this machine is of no use to others. With --sign a
    key of `convfind db keygen` vouches for it.

    \b
    Examples:
      convfind db pack --device H200 --output h200.lmdb
      convfind db pack fleet --device "opencl|NVIDIA CUDA|NVIDIA H200|sm_90|132" --output h200.lmdb
      convfind db pack --device H200 --output h200.lmdb --sign team.key
      convfind db pack --device H200 --package convfind-solvers-winograd --output h200.lmdb
    """
    with Snapshot(chosen_database(app, database)) as snapshot:
        identity = device_to_pack(snapshot, device)
        report = write_pack(snapshot, identity, selection, output, allow_noisy=allow_noisy)
    signer = None if key is None else sign_pack(report.pack, key)
    manifest, size = report.pack.manifest, output.stat().st_size
    if app.json:
        app.emit(
            {
                "output": str(output),
                "bytes": size,
                "sha256": report.pack.sha256,
                "signed_by": signer,
                "damaged": report.damaged,
                "manifest": msgspec.to_builtins(manifest),
            }
        )
        return
    app.print(
        f"device   {manifest.device}",
        f"holds    {manifest.records:,} records of {manifest.problems:,} problems; tuned configs "
        f"of {manifest.configs:,}, quarantine of {manifest.quarantined:,}",
        f"file     {output}, {format_bytes(size)}",
        f"sha256   {report.pack.sha256}",
    )
    if signer:
        app.print(f"signed   {signature_path(output)}, by {signer}")
    if report.damaged:
        app.note(f"{report.damaged:,} damaged values left out")
