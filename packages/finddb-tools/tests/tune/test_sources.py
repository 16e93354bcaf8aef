"""Problems from every kind of source, and what is wrong with malformed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from convfind.errors import ProblemError
from convfind.plugins.registry import Registry
from convfind.problem import Activation, ConvProblem
from convfind.types import Direction
from convfind_finddb_tools import hooks
from convfind_finddb_tools.tune.sources import read_source
from convfind_finddb_tools.tune.sources.torch_module import read_torch_module
from convfind_finddb_tools.tune.workload import (
    Found,
    Reading,
    gather,
    read_workload,
    update_workload,
    workload_path,
)

_LOG = """\
MIOpen(HIP): Info [get_device_name] Raw device name: gfx90a:sramecc+:xnack-
MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 8 -c 64 -H 56 -W 56 -k 64 \
-y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1
\x1b[31mMIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver conv -n 8 -c 64 -H 56 \
-W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1\x1b[0m
MIOpen(HIP): Command [LogCmdBNorm] ./bin/MIOpenDriver bnorm -n 8 -c 64 -H 56 -W 56 -m 1
[rank1] MIOpenDriver convfp16 -n 8 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -F 6
MIOpenDriver conv -n 8 -c 64 -k 64 -g 3 -F 1
MIOpenDriver conv -n 8 -c 6MIOpen(HIP): interleaved
"""


def _read(tmp_path: Path, name: str, text: str, **options: Any) -> Reading:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_source(path, options.get("dims", {}), options.get("batch"))


def test_log(tmp_path: Path) -> None:
    reading = _read(tmp_path, "app.log", _LOG)
    assert reading.skipped == 2  # the device's name, and the batch normalization
    assert [refusal.where for refusal in reading.refused] == ["line 6", "line 7"]
    workload = gather([reading])
    assert [problem.direction for problem in workload.problems] == list(Direction)
    assert list(workload.counts.values()) == [2, 1, 1]


def test_fusion_plans_in_a_log_are_fused_problems(tmp_path: Path) -> None:
    sizes = "-n 8 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1"
    plans = ("-F 4 -m 3", "-F 6", "-F 0 -M 1", "-F 2")
    log = "\n".join(f"Command [Fusion] ./bin/MIOpenDriver CBAInfer {sizes} {p}" for p in plans)
    reading = _read(tmp_path, "app.log", log)
    plain = ConvProblem.forward((8, 64, 28, 28), (64, 64, 3, 3), padding=1)
    relu = Activation("relu")
    assert gather([reading]).counts == {
        plain.with_epilogue(bias=True, activation=relu).key: 2,  # with a batch norm, or without
        plain.with_epilogue(bias=True).key: 1,
    }
    assert [refusal.where for refusal in reading.refused] == ["line 4"]


def test_layer_file_counts_layers(tmp_path: Path) -> None:
    text = "# a network of MIOpenDriver lines\nconv -n 4 -c 8 -H 9 -W 9 -k 8 -F 1  # x3 first\n"
    workload = gather([_read(tmp_path, "net.txt", text)])
    (line,) = workload.lines
    assert (line.source, line.count, line.name) == ("net.txt", 3, "first")


def test_keys_and_find_db_lines(tmp_path: Path) -> None:
    key = "64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F"
    cast = "64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F_cx1"
    text = f"{key}=solver:1.0,0,algo\nfwd-1x8x9x9-8x8x3x3-s1x1-p0x0-d1x1-g1-NCHW-float32\n{cast}\n"
    reading = _read(tmp_path, "keys.txt", text)
    assert len(reading.found) == 2
    assert len(reading.refused) == 1


def test_json_lines_with_driver_line(tmp_path: Path) -> None:
    text = json.dumps({"problem": "conv -n 1 -c 8 -k 8 -F 3", "count": 5, "name": "head"})
    workload = gather([_read(tmp_path, "net.jsonl", text)])
    assert list(workload.counts.values()) == [5, 5]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("net.txt", "conv -n 4 -c 8 -k 8 -F 1\nconv -n x\n", "net.txt:2"),
        ("keys.txt", "hello\n", "keys.txt:1"),
        ("empty.txt", "", "convolutions"),
        ("a.log", "MIOpenDriver conv -n 8 -c 64 -k 64 -g 3 -F 1\n", "the first of 1 refused"),
        ("a.jsonl", '{"problem": "conv -n 4 -c 8 -k 8", "cuont": 1}\n', "a.jsonl:1"),
        ("a.jsonl", '{"problem": "conv -n 4 -c 8 -k 8", "count": 0}\n', "at least 1"),
        ("a.jsonl", '{"problem": ', "a.jsonl:1"),
    ],
)
def test_malformed_sources(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        _read(tmp_path, name, text)


def test_missing_source(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="readable"):
        read_source(tmp_path / "none.txt", {}, None)


def test_directions_count_the_most_frequent_of_the_source() -> None:
    forward = ConvProblem.forward((1, 8, 9, 9), (8, 8, 3, 3))
    backward = forward.with_direction(Direction.BACKWARD_DATA)
    reading = Reading("log", (Found(forward, 3), Found(backward, 2)))
    workload = gather([reading], tuple(Direction), batch=2)
    assert list(workload.counts.values()) == [3, 3, 3]
    assert {problem.x_shape[0] for problem in workload.problems} == {2}


def test_transposed_problems_are_gathered_as_plain_ones() -> None:
    transposed = ConvProblem.forward((1, 8, 9, 9), (8, 4, 2, 2), mode="transpose", stride=2)
    workload = gather([Reading("a", (Found(transposed), Found(transposed.plain(), 4)))])
    assert workload.counts == {transposed.plain().key: 5}


def test_workload_file_keeps_other_sources(tmp_path: Path) -> None:
    path = workload_path(tmp_path / "db")
    path.parent.mkdir()
    problem = ConvProblem.forward((1, 8, 9, 9), (8, 8, 3, 3))
    for source, count in (("a", 1), ("b", 2), ("a", 7)):
        update_workload(path, gather([Reading(source, (Found(problem, count),))]))
    assert {line.source: line.count for line in read_workload(path)} == {"a": 7, "b": 2}
    assert read_source(path, {}, None).found[0].problem == problem
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(ProblemError, match=r"workload\.jsonl:1"):
        read_workload(path)
    assert workload_path(tmp_path / "x.lmdb").name == "x.workload.jsonl"


# -- ONNX ---------------------------------------------------------------------------------------


def _model(path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed")
    make, tensors = onnx.helper, onnx.TensorProto
    nodes = [
        make.make_node(
            "Conv", ["x", "w1"], ["a"], name="first", auto_pad="SAME_UPPER", strides=[2, 2]
        ),
        make.make_node("Relu", ["a"], ["b"]),
        make.make_node(
            "ConvTranspose",
            ["b", "w2"],
            ["y"],
            name="second",
            strides=[2, 2],
            output_padding=[1, 1],
            pads=[1, 1, 1, 1],
        ),
    ]
    weights = [
        make.make_tensor("w1", tensors.FLOAT, [8, 3, 3, 3], [0.0] * 216),
        make.make_tensor("w2", tensors.FLOAT, [8, 4, 3, 3], [0.0] * 288),
    ]
    x = make.make_tensor_value_info("x", tensors.FLOAT, ["batch", 3, "height", 32])
    y = make.make_tensor_value_info("y", tensors.FLOAT, None)
    graph = make.make_graph(nodes, "net", [x], [y], weights)
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)]), str(path))


def test_onnx_model_with_symbols(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    _model(path)
    with pytest.raises(ProblemError, match="--set batch=N --set height=N"):
        read_source(path, {}, None)
    with pytest.raises(ProblemError, match=r"give --batch N$"):
        read_source(path, {"height": 33}, None)
    reading = read_source(path, {"height": 33}, 4)
    first, second = (found.problem for found in reading.found)
    assert [found.name for found in reading.found] == ["first", "second"]
    assert (first.x_shape, first.padding, first.padding_end) == ((4, 3, 33, 32), (1, 0), (1, 1))
    assert first.y_shape == (4, 8, 17, 16)
    assert second.y_shape == (4, 4, 34, 32)


def test_json_lines_are_layers_for_bench(tmp_path: Path) -> None:
    path = tmp_path / "layers.jsonl"
    line = '{"problem": "conv -n 4 -c 3 -H 8 -W 8 -k 2 -y 3 -x 3 -F 1", "count": 2, "name": "%s"}'
    path.write_text(f"{line % 'first'}\n{line % 'second'}\n")
    registry = Registry.build([hooks], load_entry_points=False)
    (layer,) = registry.layer_readers[".jsonl"].read(path, None)
    assert layer.problem == read_source(path, {}, None).found[0].problem
    assert (layer.count, layer.comment) == (4, "first, second")


def test_damaged_onnx_model(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="ONNX is not installed")
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x01garbage")
    with pytest.raises(ProblemError, match="valid ONNX model"):
        read_source(path, {}, None)


# -- PyTorch ------------------------------------------------------------------------------------

_NETS = """
import torch
import torch.nn.functional as F

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.up = torch.nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x):
        blur = self.stem.weight.new_ones(8, 1, 3, 3)
        return {"y": [self.up(F.conv2d(self.stem(x), blur, groups=8))]}

def net():
    with torch.device("meta"):
        return Net(), torch.randn(2, 3, 16, 16)

def last():
    form = {"memory_format": torch.channels_last}
    return torch.nn.Conv2d(4, 8, 3).to(**form), (torch.randn(2, 4, 8, 8).to(**form),)

def broken():
    return torch.nn.Conv2d(4, 8, 3), torch.randn(1, 5, 8, 8)

def nothing():
    return 5
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "tune_test_nets.py").write_text(_NETS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("nets")
def test_torch_module_backward() -> None:
    reading = read_torch_module("tune_test_nets:net", backward=True)
    workload = gather([reading])
    # The first layer has no gradient for its input, and the constant weights have none either.
    directions = [found.problem.direction.short for found in reading.found]
    assert directions == ["fwd", "fwd", "fwd", "bwd-data", "bwd-weights", "bwd-data", "bwd-weights"]
    assert [found.name for found in reading.found[:3]] == ["stem", "", "up"]
    assert reading.found[1].problem.groups == 8
    assert len(workload.problems) == 7


@pytest.mark.usefixtures("nets")
def test_torch_module_with_channels_last() -> None:
    (found,) = read_torch_module("tune_test_nets:last", backward=False).found
    assert found.problem == ConvProblem.forward((2, 4, 8, 8), (8, 4, 3, 3), layout="NHWC")


@pytest.mark.usefixtures("nets")
@pytest.mark.parametrize("factory", ["tune_test_nets:broken", "tune_test_nets:nothing", "nowhere"])
def test_torch_factory_that_is_no_use(factory: str) -> None:
    with pytest.raises(ProblemError, match="--torch"):
        read_torch_module(factory, backward=False)
