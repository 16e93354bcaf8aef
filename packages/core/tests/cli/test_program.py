"""The program as a whole: help, commands of plugins, how errors end."""

from __future__ import annotations

import logging
from typing import Any

import click
import pytest

from convfind.cli import main
from convfind.cli.app import App, Command
from convfind.errors import DeviceError
from convfind.log import logger
from convfind.plugins import hookimpl

COMMANDS = [
    *("bench", "completion", "devices", "doctor", "explain"),
    *("find", "run", "solvers", "version"),
]


def test_help_without_a_command(shell: Any) -> None:
    text = shell().stdout
    assert text == shell("--help").stdout
    for command in COMMANDS:
        assert f"\n  {command} " in text


def test_help_of_a_group_without_a_command(shell: Any) -> None:
    result = shell("tools", extra=(Tools(),))
    assert result.stdout == shell("tools", "--help", extra=(Tools(),)).stdout
    assert "\n  saw" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_by_example(shell: Any, command: str) -> None:
    text = shell(command, "--help").stdout
    assert "Examples:\n" in text
    assert f"    convfind {command}" in text
    for option in ("--json", "--verbose", "--debug"):
        assert option in text


class Tools:
    """A plugin whose commands end in every way."""

    @hookimpl
    def convfind_register_commands(self, cli: click.Group) -> None:
        @cli.command("greet", cls=Command)
        @click.pass_obj
        def greet(app: App) -> None:
            app.emit({"hello": len(app.registry.solvers)})

        @cli.command("device-error", cls=Command)
        def device_error() -> None:
            raise DeviceError("the device\nis on fire")

        @cli.command("bug", cls=Command)
        def bug() -> None:
            raise ZeroDivisionError("oops")

        @cli.group("tools")
        def tools() -> None:
            pass

        @tools.command("saw", cls=Command)
        def saw() -> None:
            pass

        @cli.command("abort", cls=Command)
        def abort() -> None:
            raise click.Abort


def test_plugins_add_commands(shell: Any) -> None:
    assert shell.json("greet", extra=(Tools(),)) == {"hello": 8}


@pytest.mark.parametrize(
    ("command", "stderr", "code"),
    [
        ("device-error", "error: the device is on fire\n", 1),
        ("bug", "error: ZeroDivisionError: oops (use --debug for a traceback)\n", 1),
        ("abort", "error: interrupted\n", 130),
    ],
)
def test_errors_are_one_line(shell: Any, command: str, stderr: str, code: int) -> None:
    result = shell(command, extra=(Tools(),), code=code)
    assert (result.stdout, result.stderr) == ("", stderr)


@pytest.mark.parametrize(
    ("words", "error", "code"),
    [
        (["device-error"], "the device is on fire", 1),
        (["abort"], "interrupted", 130),
        (["--option-that-is-none"], "No such option '--option-that-is-none'", 2),
        (["find", "--batch", "many"], "'many' is not a valid integer", 2),
    ],
)
def test_errors_are_json_where_results_would_be(
    shell: Any, words: list[str], error: str, code: int
) -> None:
    document = shell.json(*words, extra=(Tools(),), code=code)
    assert error in document["error"]
    assert document["exit_code"] == code


@pytest.mark.parametrize("command", ["db", "tune", "report", "heuristics", "network"])
def test_a_command_that_is_not_installed_names_its_package(shell: Any, command: str) -> None:
    stderr = shell(command, "anything", code=1).stderr
    assert f"error: `convfind {command}` comes with convfind-" in stderr
    assert "python -m pip install " in stderr


def test_debug_prints_the_traceback_too(shell: Any) -> None:
    result = shell("bug", "--debug", extra=(Tools(),), code=1)
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ZeroDivisionError")


def test_verbose_lets_the_library_speak(shell: Any) -> None:
    shell("version", "--verbose")
    assert logger.level == logging.INFO
    shell("version", "--debug")
    assert logger.level == logging.DEBUG


def test_an_unknown_command_is_refused(shell: Any) -> None:
    assert "No such command 'fnd'" in shell("fnd", code=2).stderr


def test_an_interrupt_before_the_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("convfind.cli.program.default_registry", interrupted)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_the_version_and_the_help_are_where_people_look_for_them(shell: Any) -> None:
    assert shell("--version").stdout.startswith("convfind ")
    assert shell("-h").stdout == shell("--help").stdout
    assert shell("find", "-h").stdout == shell("find", "--help").stdout
