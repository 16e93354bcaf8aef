"""``convfind completion``: the script that lets a shell complete the program's words."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from convfind.cli.app import App, Command

_SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.option("--install", is_flag=True, help="Write it where the shell looks for it.")
@click.pass_context
def completion(context: click.Context, shell: str, install: bool) -> None:
    """Print the script with which SHELL completes commands, options, solvers, devices and files.

    With --install it is written into the folder of the user's completions; a new shell has it.

    \b
    Examples:
      convfind completion bash --install
      convfind completion fish | source
    """
    app: App = context.obj
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "convfind", "_CONVFIND_COMPLETE").source()
    place: Path | None = None
    if install:
        place = _place(shell)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script)
    if app.json:
        app.emit({"shell": shell, "script": script, "installed": place and str(place)})
    elif place is None:
        click.echo(script)
    else:
        app.print(f"written to {place}; a new shell completes `convfind`")
        if shell == "zsh":
            app.print(f"if ~/.zshrc does not yet have it: fpath+=({place.parent}); compinit")


def _place(shell: str) -> Path:
    """Return where a shell looks for completions of its user's."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return {
        "bash": data / "bash-completion/completions/convfind",
        "zsh": home / ".zfunc/_convfind",
        "fish": config / "fish/completions/convfind.fish",
    }[shell]
