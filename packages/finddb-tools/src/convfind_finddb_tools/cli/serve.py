"""``convfind db serve``: databases in a browser."""

from __future__ import annotations

import secrets
import webbrowser
from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind.errors import FindDbError
from convfind.install_hint import pip_install
from convfind_finddb_tools.cli.options import PATH, chosen_database


@click.command(cls=Command)
@click.argument("databases", nargs=-1, type=PATH, metavar="[DB]...")
@click.option("--port", type=click.IntRange(0, 65535), default=8617, help="0: a free one.  [8617]")
@click.option("--open", "is_opened", is_flag=True, help="Open the page in your browser.")
@click.option("--check", is_flag=True, help="Print the address and end, without serving.")
@click.pass_obj
def serve(app: App, databases: tuple[Path, ...], port: int, is_opened: bool, check: bool) -> None:
    """Show databases in a browser: devices, problems, solutions, networks, comparisons.

    The server listens on this machine's loopback device only, wants the token in the address that
    it prints, and changes nothing. Pages have no scripts; tables sort, filter and download as CSV
    and JSON. Ctrl-C ends it.

    \b
    Examples:
      convfind db serve --check
      convfind db serve before after --port 0 --check
    """
    try:
        import uvicorn

        from convfind_finddb_tools.serve.serving import free_socket
        from convfind_finddb_tools.serve.site import build_site
    except ImportError as exc:
        command = pip_install("convfind-finddb-tools[serve]")
        raise FindDbError(f"{exc.name} is not installed: {command}") from exc
    token = secrets.token_urlsafe(24)
    paths = databases or (chosen_database(app, None),)
    site = build_site(_named(paths), token)
    with free_socket(port) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/?token={token}"
        if app.json:
            app.emit({"address": address})
        else:
            app.print(f"open {address}", "Ctrl-C ends it")
        if check:
            return
        if is_opened:
            webbrowser.open(address)
        config = uvicorn.Config(
            site, log_level="warning", access_log=False, timeout_graceful_shutdown=1
        )
        uvicorn.Server(config).run(sockets=[listening])


def _named(paths: tuple[Path, ...]) -> dict[str, Path]:
    """Name databases briefly, and two of the same name by their whole paths."""
    names = [path.resolve().name for path in paths]
    return {
        name if names.count(name) == 1 else str(path): path
        for name, path in zip(names, paths, strict=True)
    }
