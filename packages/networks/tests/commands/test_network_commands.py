"""``convfind network``: tables for people, JSON for programs, one line for errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from networks_for_tests import exported, onnx_model
from onnx import helper
from torch import nn

import convfind_networks.hooks
from convfind.cli import build_program
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.problem import ConvProblem
from convfind.testing import MockBackend, mock_solvers

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

W = np.zeros((4, 3, 3, 3), np.float32)


def run(*arguments: object, code: int = 0) -> Result:
    registry = Registry.build([convfind_networks.hooks], load_entry_points=False)
    result = CliRunner().invoke(build_program(registry), [str(word) for word in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def document(*arguments: object, code: int = 0) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(run(*arguments, "--json", code=code).stdout)
    return read


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["x", "other"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["b", "c"], ["y"]),
    ]
    path = tmp_path / "model.onnx"
    made = onnx_model(nodes, {"x": ("batch", 3, 8, 8)}, weights={"w": W, "other": W + 1})
    path.write_bytes(made.SerializeToString())
    return path


def test_explain_shows_what_runs(model: Path) -> None:
    output = run("network", "explain", model, "--set", "batch=2").output
    assert "Convolution[geometry=p1, epilogue=relu]" in output
    assert "Convolution[geometry=p1, epilogue=z]" in output
    assert "2 operations of 4 in the model" in output


def test_explain_as_json_has_shapes_work_fusion_and_memory(model: Path) -> None:
    found = document("network", "explain", model, "--set", "x=2,3,8,8")
    first, second = found["operations"]
    rest = {"bias": False, "residual_last": False}
    assert first["epilogue"] == {"residual": False, "activation": "relu", **rest}
    assert second["epilogue"] == {"residual": True, "activation": None, **rest}
    assert first["macs"] == 2 * 4 * 8 * 8 * 27
    assert found["macs"] == 2 * first["macs"]
    assert found["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [2, 3, 8, 8], "constant": False}
    ]
    assert found["memory"] == {"bytes": 2048, "lower_bound": 2048, "unshared_bytes": 4096}
    assert found["unsupported"] == []


def test_without_passes_it_is_the_model_as_it_is(model: Path) -> None:
    found = document("network", "explain", model, "--set", "batch=1", "--no-passes")
    assert [one["operation"] for one in found["operations"]] == [
        *("Convolution", "Activate", "Convolution", "Binary")
    ]


def test_problems_are_listed_with_how_often_they_occur(model: Path) -> None:
    found = document("network", "problems", model, "--set", "batch=2")
    expected = ConvProblem.forward((2, 3, 8, 8), (4, 3, 3, 3), padding=1)
    (one,) = found["problems"]
    assert one == {"problem": expected.key, "x": 2, "gflop": expected.flops / 1e9}
    assert (
        "1 problems, 2 occurrences" in run("network", "problems", model, "--set", "batch=2").output
    )


def test_keys_can_be_read_again(model: Path) -> None:
    output = run(
        "network", "problems", model, "--set", "batch=2", "--keys", "--channels-last"
    ).output
    (line,) = output.splitlines()
    problem = ConvProblem.from_key(line)
    assert problem.layout.channels_last
    assert problem.x_shape == (2, 3, 8, 8)


def test_exported_programs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(exported(nn.Conv2d(3, 4, 3), torch.zeros(1, 3, 8, 8)), path)
    assert document("network", "problems", path)["occurrences"] == 1
    path.write_bytes(b"nothing")
    error = run("network", "problems", path, code=1).stderr
    assert error == f"error: {path} is no exported program\n"


def test_what_is_not_supported_is_a_list_and_an_exit_code(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], name="first"),
        helper.make_node("Det", ["a"], ["y"], name="second"),
    ]
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_model(nodes, {"x": (2, 3)}).SerializeToString())
    found = document("network", "explain", path, code=1)
    assert [(one["operator"], one["node"]) for one in found["unsupported"]] == [
        *(("NonZero", "first"), ("Det", "second"))
    ]
    result = run("network", "problems", path, code=1)
    assert "depends on data" in result.output
    assert "2 nodes that are not supported" in result.stderr


def test_an_open_size_is_asked_for(model: Path) -> None:
    asked = run("network", "explain", model, code=1).stderr
    assert "give x=batch,3,8,8 in numbers, or batch=N; sizes are given by --set" in asked


@pytest.mark.parametrize("size", ["batch", "batch=0", "batch=", "=4", "batch=a", "x=1,,2"])
def test_a_size_that_is_none_is_refused(model: Path, size: str) -> None:
    assert "write DIMENSION=N" in run("network", "explain", model, "--set", size, code=2).output


@pytest.mark.parametrize("size", [("--batch", "2"), ("--set", "batch=2")], ids=" ".join)
def test_bench_takes_models_without_the_package_of_tools(
    model: Path, tmp_path: Path, size: tuple[str, str]
) -> None:
    registry = Registry.build([convfind_networks.hooks, Mocks()], load_entry_points=False)
    words = ["bench", str(model), *size, "--device", "mock:0", "--json"]
    database = {"CONVFIND_USER_DB_PATH": str(tmp_path / "db")}
    result = CliRunner().invoke(build_program(registry), words, env=database)
    assert result.exit_code == 0, (result.output, result.exception)
    (layer,) = json.loads(result.stdout)["layers"]
    expected = ConvProblem.forward((2, 3, 8, 8), W.shape, padding=1)
    assert (layer["problem"], layer["count"]) == (expected.key, 2)


def test_bench_says_which_size_of_a_model_is_open(model: Path) -> None:
    assert "--batch N" in run("bench", model, code=2).stderr


def test_bench_refuses_models_without_convolutions(tmp_path: Path) -> None:
    path = tmp_path / "relu.onnx"
    made = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, 8, 8)})
    path.write_bytes(made.SerializeToString())
    assert "a model with convolutions; it has none" in run("bench", path, code=2).stderr


class Mocks:
    """A package with a device and solvers for it."""

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        """Add the device."""
        register.add(MockBackend)

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        """Add the solvers."""
        register.extend(mock_solvers())
