"""``convfind doctor``: says what is broken, and only that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convfind.cli import build_program
from convfind.device.target import Target
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.settings import Settings
from convfind.testing import MOCK_TARGET, MockBackend


class RaisingPlugin:
    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        raise RuntimeError("out of order")


def test_a_sound_installation(shell: Any) -> None:
    document = shell.json("doctor")
    assert document["problems"] == []
    assert document["devices"] == {"mock:0": MOCK_TARGET.identity}
    assert document["plugins"][0]["name"] == "mock-plugin"
    assert document["settings"]["find_mode"] == "DYNAMIC_HYBRID"
    assert document["database"]["path"] == str(shell.settings.user_db_path)
    assert "numpy" in document["versions"]
    assert "nothing is broken" in shell("doctor").stdout


def test_a_broken_plugin_is_shown(shell: Any) -> None:
    document = shell.json("doctor", extra=(RaisingPlugin(),), code=1)
    (failure,) = document["plugin_failures"]
    assert failure["name"] == "RaisingPlugin"
    assert failure["stage"] == "convfind_register_solvers"
    assert failure["error"] == "RuntimeError: out of order"
    assert "RuntimeError: out of order" in shell("doctor", extra=(RaisingPlugin(),), code=1).stdout


def test_a_damaged_database_is_shown(shell: Any) -> None:
    folder = shell.settings.user_db_path
    folder.mkdir(parents=True)
    (folder / "finddb.lmdb").write_bytes(b"no database at all" * 1000)
    document = shell.json("doctor", code=1)
    assert any("finddb.lmdb" in problem for problem in document["problems"])


def test_a_database_folder_that_cannot_be_is_shown(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    shell.settings = Settings(user_db_path=tmp_path / "file" / "db")
    document = shell.json("doctor", code=1)
    assert any("set CONVFIND_USER_DB_PATH" in problem for problem in document["problems"])


def test_illegal_settings_are_shown_with_the_rest(shell: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CONVFIND_FIND_MODE", "4")
    shell.settings = None
    document = shell.json("doctor", code=1)
    assert "CONVFIND_FIND_MODE: '4'" in document["problems"][0]
    assert document["devices"]


class NoDevices(MockBackend):
    name = "empty"

    def targets(self) -> tuple[Target, ...]:
        return ()


class EmptyPlugin:
    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(NoDevices)


def run_doctor(tmp_path: Path, *plugins: object) -> tuple[int, str]:
    from click.testing import CliRunner

    registry = Registry.build(plugins, load_entry_points=False)
    program = build_program(registry, Settings(user_db_path=tmp_path))
    result = CliRunner().invoke(program, ["doctor"])
    return result.exit_code, result.stdout


def test_core_alone_is_sound_and_says_what_to_install(tmp_path: Path) -> None:
    code, text = run_doctor(tmp_path)
    assert code == 0
    assert "backend-opencl[cpu]" in text


def test_backends_without_any_device_are_broken(tmp_path: Path) -> None:
    code, text = run_doctor(tmp_path, EmptyPlugin())
    assert code == 1
    assert "no backend has a device" in text
