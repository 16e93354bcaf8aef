"""``convfind version``: versions of core and of what plugs into it."""

from __future__ import annotations

from importlib.metadata import version as version_of

import click

from convfind.cli.app import App, Command


@click.command(cls=Command)
@click.pass_obj
def version(app: App) -> None:
    """Print the versions of convfind and of its plugins.

    \b
    Examples:
      convfind version
      convfind version --json
    """
    own = version_of("convfind")
    plugins = {info.distribution: info.version for info in app.registry.plugins}
    if app.json:
        app.emit({"convfind": own, "plugins": plugins})
        return
    app.print(f"convfind {own}", *(f"{name} {number}" for name, number in plugins.items()))
