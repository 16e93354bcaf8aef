"""The click group, how it ends, and ``main``."""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from convfind.arguments import shortened
from convfind.cli.app import App, common_options
from convfind.cli.bench import bench
from convfind.cli.compile import compile_ahead
from convfind.cli.completion import completion
from convfind.cli.devices import devices
from convfind.cli.doctor import doctor
from convfind.cli.explain import explain
from convfind.cli.find import find
from convfind.cli.run import run
from convfind.cli.solvers import solvers
from convfind.cli.version import installed_version, version
from convfind.errors import ConvfindError, ProblemError, SettingsError
from convfind.install_hint import pip_install
from convfind.log import logger, show_messages
from convfind.plugins.registry import Registry, default_registry
from convfind.settings import Settings
from convfind.starting import INTERRUPTED, EndedAtOnce

#: Characters: room for many reasons of refusal, but not for a file that has one endless line.
_LONGEST_MESSAGE = 4000

#: Commands of this project's other packages.
_PACKAGES = {
    **dict.fromkeys(("db", "tune", "report", "heuristics"), "convfind-finddb-tools"),
    "network": "convfind-networks",
}

_HELP = """Find the fastest correct way to run a convolution, remember it, and run it.

\b
  convfind devices                                   what can run here
  convfind find conv -n 1 -c 16 -H 14 -W 14 -k 16    measure once, remember
  convfind find --x 1,16,14,14 --w 16,16,3,3 --padding 1
  convfind explain --x 1,16,14,14 --w 16,16,3,3      who takes it, and why not
  convfind bench layers.txt --direction all          every layer of a network
  convfind doctor                                    what is wrong here
"""


class Program(click.Group):
    """A group whose errors are one line and an exit code: 2 for bad input, 1 for the rest."""

    def __init__(self, app: App) -> None:
        super().__init__(
            "convfind",
            help=_HELP,
            params=[_version_option(), *common_options()],
            context_settings={"help_option_names": ["-h", "--help"]},
            callback=_help_without_command,
            invoke_without_command=True,
        )
        self._app = app

    def main(self, args: Sequence[str] | None = None, *_: Any, **options: Any) -> NoReturn:
        """Run and exit."""
        # An error may come before the option is read, and is JSON all the same.
        self._app.json = "--json" in (sys.argv[1:] if args is None else args)
        options |= {"standalone_mode": False, "obj": self._app, "prog_name": "convfind"}
        try:
            code = super().main(args, **options)
        except click.exceptions.Abort:
            code = self._report("interrupted", INTERRUPTED)
        except click.UsageError as error:
            if error.ctx and type(error).__name__ == "NoArgsIsHelpError":  # before click 8.2 none
                click.echo(error.ctx.get_help())
                sys.exit(0)
            program = error.ctx.command_path if error.ctx else "convfind"
            code = self._report(f"{error.format_message()} (see `{program} --help`)", 2)
        except click.ClickException as error:
            code = self._report(error.format_message(), error.exit_code)
        except (ProblemError, SettingsError) as error:
            code = self._report(str(error), 2)
        except ConvfindError as error:
            code = self._report(str(error), 1)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            code = self._report(f"{where}{error.strerror or error}", 1)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            code = self._report(f"{what} (use --debug for a traceback)", 1)
        sys.exit(code if isinstance(code, int) else 0)

    def _report(self, message: str, code: int) -> int:
        if self._app.debug:
            traceback.print_exc()
        text = shortened(" ".join(message.split()), _LONGEST_MESSAGE)
        self._app.note(f"error: {text}")
        if self._app.json and not self._app.has_emitted:
            self._app.emit({"error": text, "exit_code": code})
        return code

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the package of a command that is not installed."""
        package = _PACKAGES.get(args[0])
        if package and args[0] not in self.commands and not ctx.resilient_parsing:
            raise click.ClickException(
                f"`convfind {args[0]}` comes with {package}: {pip_install(package)}"
            )
        return super().resolve_command(ctx, args)


def _version_option() -> click.Option:
    def show(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            click.echo(f"convfind {installed_version('convfind')}")
            context.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Print the version; `convfind version` prints also those of plugins.",
    )


@click.pass_context
def _help_without_command(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def build_program(registry: Registry, settings: Settings | None = None) -> Program:
    """Return the program with the commands of core and those of plugins."""
    program = Program(App(registry, settings))
    commands = (
        *(devices, solvers, find, explain, run, bench),
        *(compile_ahead, doctor, completion, version),
    )
    for command in commands:
        program.add_command(command)
    registry.add_commands(program)
    return program


def main() -> NoReturn:
    """Run the program on the process's arguments, environment and installed plugins."""
    try:
        level = Settings.from_environment().log_level
    except ConvfindError:
        level = None  # a command that needs the settings says what is wrong with them
    show_messages(level or "warning")
    try:
        Path.cwd()
    except OSError:
        logger.warning("the current folder is gone: relative paths name nothing")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error does: names of files

    def show(message: Warning | str, *_: object, **__: object) -> None:
        logger.warning("%s", message)

    with warnings.catch_warnings():
        warnings.showwarning = show
        with EndedAtOnce():  # plugins take a while to import
            registry = default_registry()
        build_program(registry).main()
