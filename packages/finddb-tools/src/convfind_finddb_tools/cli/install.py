"""``convfind db install``: installs a pack for use by finds."""

from __future__ import annotations

from pathlib import Path

import click

import convfind
from convfind.cli.app import App, Command
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.installing import install_pack


@click.command(cls=Command)
@click.argument("file", type=PATH)
@click.option("--any-device", is_flag=True, help="Also where the pack's device is not here.")
@click.option("--sha256", metavar="HEX", help="Refuse a pack whose hash does not begin so.")
@click.pass_obj
def install(app: App, file: Path, any_device: bool, sha256: str | None) -> None:
    """Install a pack that `convfind db pack` wrote: finds use it as a layer below your database.

    Hash, structure and every value are checked first, and the device must be one of this machine;
    otherwise the pack is refused and nothing changes. Your own records win over a pack, a pack over
    shipped databases, and among several packs of a device the one installed last.

    \b
    Examples:
      convfind db install h200.lmdb
      convfind db install h200.lmdb --sha256 5f0c2a9be411
      convfind db install h200.lmdb --any-device
    """
    found = convfind.devices(registry=app.registry)
    devices = {name: target.identity for name, target in found.devices}
    place, new = install_pack(
        file, app.settings.user_db_path, devices, any_device=any_device, sha256=sha256
    )
    if app.json:
        app.emit({"installed": str(place), "new": new})
        return
    app.print(f"installed as {place}" if new else f"installed already, as {place}")
