"""What a shell completes, and where it finds how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from convfind.cli import build_program
from convfind.cli.app import App
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.testing.mock_backend import MockBackend
from convfind.testing.solvers import mock_solvers


class Plugin:
    """The mock backend and its solvers."""

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(MockBackend)

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.extend(mock_solvers())


def completions(*words: str) -> list[str]:
    """Return what completes the last word of a command line."""
    registry = Registry.build([Plugin()], load_entry_points=False)
    shell = ShellComplete(
        build_program(registry), {"obj": App(registry)}, "convfind", "_CONVFIND_COMPLETE"
    )
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fi"], ["find"]),
        (["find", "--constant"], ["--constant-weights"]),
        (["find", "--solver", "mock-hun"], ["mock-hungry"]),
        (["find", "--device", "mock:"], ["mock:0", "mock:cpu"]),
        (["find", "--mode", "trust"], ["trust_verify", "trust_verify_full"]),
        (["find", "conv", "-n", "4", "-H", "9", "--solver", "mock-hun"], ["mock-hungry"]),
        (["find", "conv", "--no_such_option", "4", "--mode", "fas"], ["fast"]),
        (["completion", "z"], ["zsh"]),
    ],
)
def test_words_are_completed(words: list[str], expected: list[str]) -> None:
    assert completions(*words) == expected


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_the_script_is_for_the_program(shell: Any, shell_name: str) -> None:
    assert "_CONVFIND_COMPLETE" in shell("completion", shell_name).stdout


def test_it_is_installed_where_the_shell_looks(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    document = shell.json("completion", "fish", "--install")
    place = tmp_path / "fish/completions/convfind.fish"
    assert document["installed"] == str(place)
    assert place.read_text() == document["script"]
