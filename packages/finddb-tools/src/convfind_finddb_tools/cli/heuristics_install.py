"""``convfind heuristics install``: installs a model for use by handles."""

from __future__ import annotations

from pathlib import Path

import click

import convfind
from convfind.cli.app import App, Command
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.heuristics.installing import install_model


@click.command("install", cls=Command)
@click.argument("model", type=PATH, metavar="MODEL")
@click.option("--any-device", is_flag=True, help="Also where none of the model's devices is here.")
@click.pass_obj
def heuristics_install(app: App, model: Path, any_device: bool) -> None:
    """Install a model that `convfind heuristics train` wrote, replacing one of the same name.

    It is copied into the folder models beside your find database (CONVFIND_USER_DB_PATH). Installed
    models are consulted before those of packages, the latest installed first. The file is checked,
    and one of its devices must be present; otherwise it is refused and nothing changes.

    \b
    Examples:
      convfind heuristics install h200.npz
      convfind heuristics install h200.npz --any-device
    """
    devices = convfind.devices(registry=app.registry).devices
    identities = dict.fromkeys(name for _, target in devices for name in target.identities)
    place = install_model(model, app.settings.user_db_path, identities, any_device=any_device)
    if app.json:
        app.emit({"installed": str(place)})
        return
    app.print(f"installed as {place}")
