"""``convfind db sign``: signs a pack that is there."""

from __future__ import annotations

from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind.finddb.pack import read_pack
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.signature import sign_pack, signature_path


@click.command(cls=Command)
@click.argument("file", type=PATH)
@click.option("--key", required=True, type=PATH, metavar="KEY", help="Made by convfind db keygen.")
@click.pass_obj
def sign(app: App, file: Path, key: Path) -> None:
    """Sign a pack of records or of kernels: writes FILE.sig, which install --trust wants.

    The hash of the pack is checked before. `convfind db pack --sign` writes and signs in one step.

    \b
    Examples:
      convfind db sign kernels.lmdb --key team.key
    """
    public = sign_pack(read_pack(file), key)
    place = signature_path(file)
    if app.json:
        app.emit({"signature": str(place), "signed_by": public})
        return
    app.print(f"signed   {place}, by {public}")
