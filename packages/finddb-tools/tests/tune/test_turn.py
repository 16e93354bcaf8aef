"""Measurements on a CPU are undisturbed: whoever measures has its cores alone."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from convfind.device.target import DeviceKind
from convfind.testing.mock_backend import MOCK_TARGET
from convfind_finddb_tools.tune.turn import Turn

pytest.importorskip("fcntl", reason="this system has no locks of this kind")

_ATTEMPT = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, getattr(fcntl, sys.argv[2]) | fcntl.LOCK_NB, 1, int(sys.argv[3]))
    except OSError:
        sys.exit(3)
"""


def is_free(path: Path, kind: str, core: int) -> bool:
    """Return whether another process could have a core alone, or share it."""
    words = [sys.executable, "-c", _ATTEMPT, path, {"alone": "LOCK_EX", "shared": "LOCK_SH"}[kind]]
    code = subprocess.run([*map(str, words), str(core)]).returncode
    assert code in (0, 3)
    return code == 0


def test_who_measures_keeps_everybody_else_waiting(tmp_path: Path) -> None:
    path = tmp_path / "cores.lock"
    turn = Turn([2, 0], path)
    with turn.alone():
        assert not is_free(path, "shared", 0)
        assert not is_free(path, "shared", 2)
        assert is_free(path, "alone", 1)  # another device's core
    assert is_free(path, "alone", 0)
    turn.close()


def test_those_who_compile_keep_only_who_measures_waiting(tmp_path: Path) -> None:
    path = tmp_path / "cores.lock"
    turn = Turn([0], path)
    with turn.shared():
        assert is_free(path, "shared", 0)
        assert not is_free(path, "alone", 0)
    assert is_free(path, "alone", 0)
    turn.close()


def test_an_error_ends_the_turn(tmp_path: Path) -> None:
    path = tmp_path / "cores.lock"
    turn = Turn([0], path)
    with pytest.raises(ValueError, match="of the solver"), turn.alone():
        raise ValueError("of the solver")
    assert is_free(path, "alone", 0)
    turn.close()


def test_a_folder_that_cannot_be_written_lets_everybody_go_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Turn([0], tmp_path / "file" / "cores.lock").alone():
        pass


def test_only_a_cpu_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    targets = {
        kind: dataclasses.replace(MOCK_TARGET, kind=kind)
        for kind in (DeviceKind.CPU, DeviceKind.GPU)
    }
    for kind, target in targets.items():
        turn = Turn.on(target)
        with turn.alone():
            files = list(tmp_path.glob("*/cores.lock"))
        turn.close()
        assert bool(files) is (kind is DeviceKind.CPU)
        for file in files:
            file.unlink()
