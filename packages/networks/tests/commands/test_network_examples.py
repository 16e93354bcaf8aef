"""Every command of ``convfind network`` teaches by examples, each of which does what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from networks_for_tests import exported, onnx_model
from onnx import helper
from torch import nn

from convfind.cli import build_program
from convfind.plugins.registry import Registry
from convfind.testing.command_examples import command_examples, words_of

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
pytest.importorskip("safetensors")

EXAMPLES = {
    command: examples
    for command, examples in command_examples(build_program(Registry.build()))
    if command.startswith("convfind network") or command == "network"
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that examples name, small, and a plan of one of them."""
    folder = tmp_path_factory.mktemp("files")
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    for name, data in (("resnet50", "x"), ("model", "x"), ("detector", "images")):
        nodes = [helper.make_node("Conv", [data, "w"], ["y"], pads=[1, 1, 1, 1])]
        batch, size = (1 if name == "detector" else "batch"), (224 if name == "model" else 8)
        made = onnx_model(nodes, {data: (batch, 3, size, size)}, weights={"w": weights})
        (folder / f"{name}.onnx").write_bytes(made.SerializeToString())
    for name in ("resnet50", "model"):
        program = exported(nn.Conv2d(3, 4, 3), torch.zeros(1, 3, 8, 8))
        torch.export.save(program, folder / f"{name}.pt2")
    np.save(folder / "images.npy", np.ones((1, 3, 8, 8), np.float32))
    return folder


def run(example: str) -> None:
    result = CliRunner().invoke(build_program(Registry.build()), words_of(example))
    assert result.exit_code == 0, (result.output, result.exception)


def test_every_command_has_an_example() -> None:
    assert len(EXAMPLES) > 1
    assert [command for command, examples in EXAMPLES.items() if not examples] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    dict.fromkeys(
        one for some in EXAMPLES.values() for one in some if one.startswith("convfind network")
    ),
)
def test_every_example_succeeds(
    example: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for peer in ("onnxruntime", "openvino"):
        if peer in example:
            pytest.importorskip(peer)
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(files / "db"))  # one for all examples
    monkeypatch.setenv("CONVFIND_FIND_MODE", "FAST")  # nothing is measured
    monkeypatch.setenv("CONVFIND_DEVICE", "opencl:cpu")
    if "resnet50.plan" in example:
        run("convfind network compile resnet50.onnx --set batch=4")
    run(example)
