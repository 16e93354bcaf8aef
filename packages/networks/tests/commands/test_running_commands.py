"""``convfind network run``, ``bench``, ``profile`` and ``compile``: on a small model, for real."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from networks_for_tests import exported, onnx_model
from onnx import helper

import convfind
from convfind.cli import build_program
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind_networks import Network, Plan, evaluate

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
pytest.importorskip("safetensors")

W = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
#: Nothing is measured: any solver does.
QUICK = ("--set", "batch=2", "--device", "opencl:cpu", "--time-budget", "0", "--channels-first")


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(tmp_path / "db"))


def run(*arguments: object, code: int = 0) -> Result:
    program = build_program(Registry.build())
    result = CliRunner().invoke(program, ["network", *(str(word) for word in arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def document(*arguments: object) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return read


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    path = tmp_path / "model.onnx"
    made = onnx_model(nodes, {"x": ("batch", 3, 8, 8)}, weights={"w": W})
    path.write_bytes(made.SerializeToString())
    return path


def test_a_model_runs_on_files_and_writes_files(model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    found = document(
        "run", model, *QUICK, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out"
    )
    (output,) = found["outputs"]
    assert (output["name"], output["dtype"], output["shape"]) == ("y", "float32", [2, 4, 8, 8])
    expected = evaluate(Network.from_onnx(model).graph({"batch": 2}), {"x": x})["y"]
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), expected, atol=1e-4)


def test_a_run_is_shown_as_a_table(model: Path) -> None:
    result = run("run", model, *QUICK)
    assert "2x4x8x8" in result.stdout
    assert "1 of 1 problems are served by estimates" in result.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("x", "is no NAME=FILE of an input"),
        ("other={}/x.npy", "'other' is no input; inputs: x"),
        ("x={}/missing.npy", "is no .npy file of numbers"),
    ],
)
def test_inputs_that_are_none_are_refused(
    model: Path, tmp_path: Path, given: str, told: str
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 4, 8, 8), np.float32))
    last = run("run", model, *QUICK, "--input", given.format(tmp_path), code=1).stderr
    assert last.splitlines()[-1].startswith("error: ")
    assert told in last


def test_files_that_cannot_be_used_are_told_before_anything_is_found(
    model: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    for word, path in (("--input", f"x={tmp_path}/missing.npy"), ("--output", tmp_path / "file/x")):
        told = run("run", model, *QUICK, word, path, code=1).stderr
        assert len(told.splitlines()) == 1
        assert told.startswith("error: ")


def test_a_profile_has_every_task(model: Path, tmp_path: Path) -> None:
    found = document("profile", model, *QUICK, "--rounds", 2, "--trace", tmp_path / "trace.json")
    assert [task["node"] for task in found["tasks"]] == ["y"]
    assert found["whole_ms"] > 0
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert [event["name"] for event in trace["traceEvents"]] == ["y"]
    assert "the whole network" in run("profile", model, *QUICK, "--rounds", 1).stdout


def test_a_compiled_plan_runs_as_the_model_does(model: Path) -> None:
    made = document("compile", model, *QUICK)
    assert Path(made["plan"]) == model.with_suffix(".plan")
    of_plan = document("run", made["plan"], "--device", "opencl:cpu")["outputs"]
    assert of_plan == document("run", model, *QUICK)["outputs"]


def saved_problem(model: Path) -> ConvProblem:
    with convfind.open("opencl:cpu") as handle:
        tasks = Plan.load(model.with_suffix(".plan"), handle).schedule.tasks
    (problem,) = (one.problem for one in tasks if isinstance(one.problem, ConvProblem))
    return problem


def test_commands_ask_for_what_plans_permit_and_demand(model: Path) -> None:
    asked = ("--allow-tf32", "--autocast", "float16", "--deterministic", "--accuracy", "strict")
    document("compile", model, *QUICK, *asked)
    problem = saved_problem(model)
    assert (problem.dtype, problem.accuracy) == ("float16", "strict")
    assert problem.deterministic
    assert not problem.allow_tf32  # it is for float32
    document("compile", model, *QUICK, "--allow-tf32")
    problem = saved_problem(model)
    assert problem.allow_tf32
    assert (problem.accuracy, problem.deterministic) == ("normal", False)


def test_what_a_plan_was_compiled_with_does_not_change(model: Path) -> None:
    made = document("compile", model, *QUICK)
    for asked in (("--accuracy", "strict"), ("--channels-last",), ("--set", "batch=2")):
        error = run("run", made["plan"], "--device", "opencl:cpu", *asked, code=2).stderr
        assert f"is compiled already; {asked[0]}: compile its model again" in error


def test_a_plan_that_is_none_is_an_error_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    path.write_bytes(b"nothing")
    error = run("run", path, "--device", "opencl:cpu", code=1).stderr
    assert error.startswith(f"error: {path} is no plan")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("peer", ["onnxruntime", "openvino"])
def test_runtimes_are_compared_in_turns(model: Path, peer: str) -> None:
    pytest.importorskip(peer)
    found = document("bench", model, *QUICK, "--rounds", 2, "--against", peer)
    assert [one["name"] for one in found["runs"]] == ["convfind", peer]
    assert found["ratio"] > 0
    table = run("bench", model, *QUICK, "--rounds", 1, "--against", peer).stdout
    assert "times as fast" in table


def test_runtimes_are_in_processes_of_their_own(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.delitem(sys.modules, "onnxruntime")
    document("bench", model, *QUICK, "--rounds", 1, "--against", "onnxruntime")
    assert "onnxruntime" not in sys.modules


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ("raise ImportError", "onnxruntime is not installed: python -m pip install onnxruntime"),
        ("import os; os._exit(3)", "the process of onnxruntime ended"),
    ],
)
def test_a_runtime_that_fails_is_an_error_of_one_line(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, expected: str
) -> None:
    (tmp_path / "onnxruntime.py").write_text(library)
    monkeypatch.syspath_prepend(tmp_path)
    error = run("bench", model, *QUICK, "--against", "onnxruntime", code=1).stderr
    assert error.splitlines()[-1] == f"error: {expected}"


def test_exported_programs_are_compared_with_torch(tmp_path: Path) -> None:
    import torch
    from torch import nn

    path = tmp_path / "model.pt2"
    torch.export.save(exported(nn.Conv2d(3, 4, 3, bias=False), torch.zeros(1, 3, 8, 8)), path)
    found = document(
        "bench", path, "--device", "opencl:cpu", "--time-budget", 0, "--channels-first",
        *("--rounds", 1, "--against", "torch"),
    )  # fmt: skip
    assert [one["name"] for one in found["runs"]] == ["convfind", "torch"]


@pytest.mark.parametrize("peer", ["nobody", "torch"])
def test_who_cannot_run_the_model_is_refused(model: Path, peer: str) -> None:
    assert peer in run("bench", model, *QUICK, "--against", peer, code=2).stderr
