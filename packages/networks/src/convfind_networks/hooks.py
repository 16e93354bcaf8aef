"""The entry point: what the package registers with convfind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.plugins import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def convfind_register_commands(cli: click.Group) -> None:
    """Add ``convfind network``."""
    from convfind_networks.cli.network import network

    cli.add_command(network)
