"""``convfind run``: random data or files in, a checked result out."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from convfind.checking.random_data import random_operands
from convfind.checking.reference import reference_convolution
from convfind.plugins import hookimpl
from convfind.problem import ConvProblem
from convfind.testing.solvers import MockFused

SHAPES = ("--x", "2,4,6,6", "--w", "4,4,3,3", "--padding", "1")


@pytest.mark.parametrize("direction", ["fwd", "bwd-data", "bwd-weights"])
def test_random_data_are_computed_and_compared(shell: Any, direction: str) -> None:
    document = shell.json("run", *SHAPES, "--direction", direction)
    assert document["correct"] is True
    assert document["error"] <= document["bound"]
    assert document["solution"]["solver"] == "mock-hungry"
    assert document["run_ms"] > 0


def test_a_bias_and_more_are_drawn_or_come_from_files(shell: Any, tmp_path: Path) -> None:
    class Plugin:
        @hookimpl
        def convfind_register_solvers(self, register: Any) -> None:
            register.add(MockFused())

    np.save(tmp_path / "bias.npy", bias := np.arange(4, dtype=np.float32))
    words = ("run", *SHAPES, "--bias", "--add", "--activation", "leaky:0.1")
    files = ("--bias-file", tmp_path / "bias.npy", "--output", tmp_path / "y.npy")
    for more in ((), files):
        document = shell.json(*words, *more, extra=(Plugin(),))
        assert document["correct"] is True
        assert document["problem"].endswith("_bias:1_add:1_act:leaky")
        assert document["solution"]["solver"] == "mock-fused"
    problem = ConvProblem.forward(
        *((2, 4, 6, 6), (4, 4, 3, 3)), padding=1, bias=True, add=True, activation="leaky:0.1"
    )
    drawn = random_operands(problem, 0)
    expected = reference_convolution(problem, drawn["x"], drawn["w"], drawn["z"], bias)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=1e-5)
    assert "gelu-erf" in shell(*words[:-1], "gelu", code=2).output


def test_tensors_come_from_files_and_go_to_one(shell: Any, tmp_path: Path) -> None:
    problem = ConvProblem.forward(x=(1, 2, 5, 5), w=(3, 2, 3, 3), layout="NHWC")
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (1, 5, 5, 2)).astype(np.float32)
    w = rng.integers(-4, 5, (3, 3, 3, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "w.npy", w)
    shell(
        *("run", "--x", "1,2,5,5", "--w", "3,2,3,3", "--layout", "NHWC"),
        *("--x-file", tmp_path / "x.npy", "--w-file", tmp_path / "w.npy"),
        *("--output", tmp_path / "y.npy"),
    )
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), reference_convolution(problem, x, w))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nothing_is_compared_on_numbers_that_are_not_finite(
    shell: Any, tmp_path: Path, number: float
) -> None:
    x = np.zeros((2, 4, 6, 6), np.float32)
    x[1, 2, 3, 4] = number
    np.save(tmp_path / "x.npy", x)
    words = ("run", *SHAPES, "--x-file", tmp_path / "x.npy")
    assert "finite numbers, or --no-verify" in shell(*words, code=2).stderr
    assert "not checked" in shell(*words, "--no-verify").stdout


def test_results_go_to_the_file_that_was_named(shell: Any, tmp_path: Path) -> None:
    shell("run", *SHAPES, "--output", tmp_path / "y")
    assert np.load(tmp_path / "y").shape == (2, 4, 6, 6)
    missing = tmp_path / "missing" / "y.npy"
    stderr = shell("run", *SHAPES, "--output", missing, code=1).stderr
    assert stderr == f"error: cannot write {missing}: No such file or directory\n"
    assert "--seed" in shell("run", *SHAPES, "--seed", "-1", code=2).stderr


def test_a_full_disk_leaves_no_part_of_a_result(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(file: BinaryIO, _array: object) -> None:
        file.write(b"a part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "save", fails)
    assert "No space left" in shell("run", *SHAPES, "--output", tmp_path / "y", code=1).stderr
    assert not (tmp_path / "y").exists()


def test_a_wrong_result_fails(shell: Any) -> None:
    shell("find", *SHAPES)
    shell.backend.faults.result = lambda launch: True
    document = shell.json("run", *SHAPES, code=1)
    assert document["correct"] is False
    assert "the result of mock-hungry is wrong" in shell("run", *SHAPES, code=1).stderr
    assert "not checked" in shell("run", "--no-verify", *SHAPES).stdout


def test_people_read_solver_time_and_error(shell: Any) -> None:
    text = shell("run", *SHAPES, "--seed", "3").stdout
    assert "solver   mock-hungry" in text
    assert "(measured)" in text
    assert "bound: max" in text


def test_files_that_do_not_fit_are_refused(shell: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", np.zeros((1, 1), np.float32))
    np.save(tmp_path / "double.npy", np.zeros((2, 4, 6, 6)))
    (tmp_path / "text.npy").write_text("no array")
    for name, message in (
        ("small.npy", "float32 (1, 1)"),
        ("double.npy", "float64 (2, 4, 6, 6)"),
        ("text.npy", "a .npy file"),
        ("missing.npy", "does not exist"),
    ):
        result = shell("run", *SHAPES, "--x-file", tmp_path / name, code=2)
        assert message in result.stderr
    result = shell("run", *SHAPES, "--y-file", tmp_path / "small.npy", code=2)
    assert "forward reads x and w" in result.stderr
