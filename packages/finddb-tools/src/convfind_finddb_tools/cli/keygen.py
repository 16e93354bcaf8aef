"""``convfind db keygen``: makes a key that signs packs."""

from __future__ import annotations

from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.signature import generate_key


@click.command(cls=Command)
@click.argument("file", type=PATH)
@click.pass_obj
def keygen(app: App, file: Path) -> None:
    """Write a new Ed25519 key into FILE, for its owner only, and the public key into FILE.pub.

    Keep FILE to yourself: whoever has it can sign in your name. Hand FILE.pub to those who are to
    trust your packs. An existing FILE or FILE.pub is never written over.

    \b
    Examples:
      convfind db keygen team.key
    """
    public = generate_key(file)
    if app.json:
        app.emit({"key": str(file), "public": public, "public_file": f"{file}.pub"})
        return
    app.print(f"key      {file}; keep it secret", f"public   {file}.pub: {public}")
