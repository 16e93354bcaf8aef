"""``convfind db install``: installs a pack for use by finds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

import convfind
from convfind.cli.app import App, Command
from convfind.finddb.pack import Pack
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.drift import Drift
from convfind_finddb_tools.installing import install_pack
from convfind_finddb_tools.pack_timing import time_pack
from convfind_finddb_tools.signature import read_trusted


@click.command(cls=Command)
@click.argument("file", type=PATH)
@click.option("--any-device", is_flag=True, help="Also where the pack's device is not here.")
@click.option("--sha256", metavar="HEX", help="Refuse a pack whose hash does not begin so.")
@click.option("--trust", type=PATH, metavar="KEYS", help="Refuse a pack that no key here signed.")
@click.option(
    "--verify",
    "most",
    type=click.IntRange(min=1),
    metavar="K",
    help="Measure the K most used layers here, and refuse a pack that contradicts them.",
)
@click.pass_obj
def install(
    app: App,
    file: Path,
    any_device: bool,
    sha256: str | None,
    trust: Path | None,
    most: int | None,
) -> None:
    """Install a pack: finds use its records, or its kernels, as a layer below your own.

    Hash, structure and every value are checked first, and the device must be one of this machine;
    otherwise the pack is refused and nothing changes. Your own records win over a pack, a pack over
    shipped databases, and among several packs of a device the one installed last. --trust takes a
    file of public keys, one a line, and wants a signature by one of them.

    `convfind db pack` writes packs of records, `convfind compile --output` packs of kernels.
    Kernels are code that runs in your programs: they are installed with --trust, or with --sha256
    and all 64 digits, and used wherever their compiler is that of a device here.

    \b
    Examples:
      convfind db install h200.lmdb
      convfind db install h200.lmdb --sha256 5f0c2a9be411
      convfind db install h200.lmdb --any-device
      convfind db install h200.lmdb --trust team.key.pub --verify 10
      convfind db install kernels.lmdb --trust team.key.pub
    """
    found = convfind.devices(registry=app.registry)
    devices = dict(found.devices)

    def timed(pack: Pack) -> None:
        if most is not None:
            measured.extend(time_pack(pack, most, devices, app.registry, app.settings))

    measured: list[Drift] = []
    place, new = install_pack(
        file,
        app.settings.user_db_path,
        devices,
        any_device=any_device,
        sha256=sha256,
        trusted=None if trust is None else read_trusted(trust),
        check=timed,
    )
    if app.json:
        records = [dataclasses.asdict(one) | {"ratio": one.ratio} for one in measured]
        app.emit({"installed": str(place), "new": new, "measured": records})
        return
    ratios = [one.ratio for one in measured if one.ratio is not None]
    if ratios:
        app.print(
            f"measured {len(ratios)} layers here: {min(ratios):.2f} to {max(ratios):.2f} times "
            "their recorded times"
        )
    elif most is not None:
        app.note("nothing was measured: no solver of these records is installed here")
    app.print(f"installed as {place}" if new else f"installed already, as {place}")
