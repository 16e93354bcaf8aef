"""``convfind db packs``: lists the installed packs, and removes one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import msgspec

import convfind
from convfind.cli.app import App, Command, new_table
from convfind.finddb.packs import installed_packs
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.installing import InstalledPack, list_packs, uninstall_pack


@click.command(cls=Command)
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE]...")
@click.option("--uninstall", metavar="NAME", help="Remove this one: name, or beginning of hash.")
@click.pass_obj
def packs(app: App, files: tuple[Path, ...], uninstall: str | None) -> None:
    """List installed packs, or the contents of FILEs; check their hashes; uninstall one.

    \b
    Examples:
      convfind db packs
      convfind db packs h200.lmdb --json
      convfind db packs --uninstall 5f0c2a9be411
    """
    if uninstall is not None:
        if files:
            msg = "--uninstall takes no FILE: installed packs have names"
            raise click.UsageError(msg)
        removed = uninstall_pack(app.settings.user_db_path, uninstall)
        if app.json:
            app.emit({"removed": str(removed)})
        else:
            app.print(f"removed {removed}")
        return
    found = convfind.devices(registry=app.registry)
    devices = dict(found.devices)
    listed = list_packs(files or installed_packs(app.settings.user_db_path), devices)
    if app.json:
        app.emit({"packs": [_pack_json(one) for one in listed]})
    elif listed:
        _print(app, listed)
    else:
        app.print("no packs are installed; `convfind db install FILE` installs one")
    if any(one.fault for one in listed):
        raise click.exceptions.Exit(1)


def _print(app: App, listed: list[InstalledPack]) -> None:
    numbers = ("problems", "records", "kernels")
    table = new_table("pack", "device", "here", *numbers, "newest", "sha256", right=numbers)
    for one in listed:
        if one.manifest is None:
            table.add_row(one.path.name, *"------", "damaged")
            continue
        table.add_row(
            *(one.path.name, one.manifest.device, ", ".join(one.devices) or "no"),
            *(f"{one.manifest.problems:,}", f"{one.manifest.records:,}"),
            f"{one.manifest.kernels:,}",
            _day(one.manifest.newest),
            one.sha256[:12],
        )
    app.print(table)
    for one in listed:
        if one.fault:
            app.note(one.fault)
        elif one.manifest is not None and one.manifest.compiler and not one.devices:
            app.note(f"{one.path.name} is not used here: {one.manifest.compiler} compiled it")


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds)) if seconds else "-"


def _pack_json(one: InstalledPack) -> dict[str, Any]:
    return {
        "path": str(one.path),
        "sha256": one.sha256,
        "devices_here": list(one.devices),
        "fault": one.fault or None,
        "manifest": None if one.manifest is None else msgspec.to_builtins(one.manifest),
    }
