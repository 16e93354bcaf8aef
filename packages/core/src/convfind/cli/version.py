"""``convfind version``: versions of core and of what plugs into it."""

from __future__ import annotations

from importlib import metadata

import click

from convfind.cli.app import App, Command


def installed_version(distribution: str) -> str:
    """Return the version of a distribution; "-" where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "-"


@click.command(cls=Command)
@click.pass_obj
def version(app: App) -> None:
    """Print the versions of convfind and of its plugins.

    \b
    Examples:
      convfind version
      convfind version --json
    """
    own = installed_version("convfind")
    plugins = {info.distribution: info.version for info in app.registry.plugins}
    if app.json:
        app.emit({"convfind": own, "plugins": plugins})
        return
    app.print(f"convfind {own}", *(f"{name} {number}" for name, number in plugins.items()))
