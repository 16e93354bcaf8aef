"""``convfind devices``, ``solvers`` and ``version``."""

from __future__ import annotations

from typing import Any

from convfind.device.target import Target
from convfind.errors import BackendUnavailableError
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry
from convfind.testing import MOCK_TARGET, MockBackend, mock_solvers


class NoRuntime(MockBackend):
    name = "missing"

    def targets(self) -> tuple[Target, ...]:
        raise BackendUnavailableError("pip install the-runtime")


class MissingPlugin:
    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(NoRuntime)


def test_devices_lists_what_can_be_opened_and_why_a_backend_has_none(shell: Any) -> None:
    document = shell.json("devices", extra=(MissingPlugin(),))
    (device,) = document["devices"]
    assert device["device"] == "mock:0"
    assert device["identity"] == MOCK_TARGET.identity
    assert document["errors"] == {"missing": "pip install the-runtime"}
    text = shell("devices", extra=(MissingPlugin(),)).stdout
    assert "mock:0" in text
    assert "missing: pip install the-runtime" in text


def test_solvers_lists_all_or_those_of_an_algorithm_or_backend(shell: Any) -> None:
    listed = [row["solver"] for row in shell.json("solvers")]
    assert sorted(listed) == sorted(solver.solver_id for solver in mock_solvers())
    assert listed[-1] == "mock-last-resort"
    assert shell.json("solvers", "--backend", "opencl") == []
    assert shell.json("solvers", "--algorithm", "fft") == []
    row = next(row for row in shell.json("solvers") if row["solver"] == "mock-tunable")
    assert row["tunable"]
    assert row["package"] == "mock-plugin 1.5"
    text = shell("solvers").stdout
    assert "last resort" in text
    assert "no solver" in shell("solvers", "--algorithm", "fft").stdout


def test_version_names_plugins(shell: Any) -> None:
    assert shell.json("version")["plugins"] == {"mock-plugin": "1.5"}
    assert "mock-plugin 1.5" in shell("version").stdout
