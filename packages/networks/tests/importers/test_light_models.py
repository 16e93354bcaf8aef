"""The nine networks that ship with ONNX: imported, optimised, and right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from networks_for_tests import LIGHT_MODELS

from convfind_networks import Network, evaluate

#: What is left of each: operations, and how many of each kind there are in all.
LEFT = {
    "light_bvlc_alexnet": {"Convolution": 5, "Linear": 3, "MaxPool": 3, "LocalResponseNorm": 2},
    "light_densenet121": {"Convolution": 121, "BatchNorm": 62, "Activate": 0, "Concat": 58},
    "light_inception_v1": {"Convolution": 57, "Linear": 1, "Concat": 9, "BatchNorm": 0},
    "light_inception_v2": {"Convolution": 69, "Linear": 1, "Concat": 10, "BatchNorm": 0},
    "light_resnet50": {"Convolution": 53, "Linear": 1, "MaxPool": 1, "AveragePool": 1},
    "light_shufflenet": {"Convolution": 49, "Linear": 1, "ChannelShuffle": 16, "Activate": 3},
    "light_squeezenet": {"Convolution": 26, "GlobalPool": 1, "Activate": 0},
    "light_vgg19": {"Convolution": 16, "Linear": 3, "MaxPool": 5, "Activate": 0},
    "light_zfnet512": {"Convolution": 5, "Linear": 3, "MaxPool": 3, "LocalResponseNorm": 2},
}
#: Those that are evaluated: the others have the same operations, and take long in float64.
EVALUATED = ("alexnet", "inception_v1", "inception_v2", "shufflenet", "squeezenet", "zfnet512")

each_model = pytest.mark.parametrize("path", LIGHT_MODELS, ids=lambda path: path.stem)


def test_there_are_nine() -> None:
    assert {path.stem for path in LIGHT_MODELS} == set(LEFT)


@each_model
def test_every_model_is_reduced_to_what_has_to_run(path: Path) -> None:
    graph = Network.from_onnx(path).optimized()
    counts = {kind: graph.count(kind) for kind in LEFT[path.stem]}
    assert counts == LEFT[path.stem]


def test_resnet50_is_53_convolutions_2_pools_and_a_linear_layer() -> None:
    (path,) = (one for one in LIGHT_MODELS if "resnet50" in one.stem)
    graph = Network.from_onnx(path).optimized()
    assert {node.op.kind for node in graph.nodes} == {
        *("Convolution", "MaxPool", "AveragePool", "Reshape", "Linear", "Softmax")
    }
    assert len(graph.nodes) == 53 + 2 + 1 + 1 + 1
    assert graph.macs == 4_089_184_256


@pytest.mark.parametrize(
    "path",
    [path for path in LIGHT_MODELS if path.stem.endswith(EVALUATED)],
    ids=lambda path: path.stem,
)
def test_results_are_those_that_ship_with_the_model(path: Path) -> None:
    network = Network.from_onnx(path)
    stored = onnx.TensorProto()
    stored.ParseFromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
    graph = network.optimized()
    (name,) = graph.inputs
    shape = graph.values[name].shape
    # The inputs of the stored outputs: a ramp, as ONNX's runner makes it.
    ramp = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / np.prod(shape)
    (result,) = evaluate(graph, {name: ramp}).values()
    np.testing.assert_allclose(result, onnx.numpy_helper.to_array(stored), rtol=1e-3, atol=1e-7)


def test_other_batches_need_no_other_model() -> None:
    (path,) = (one for one in LIGHT_MODELS if "squeezenet" in one.stem)
    network = Network.from_onnx(path)
    (one,) = network.inputs
    shape = (3, *(one.dims or ())[1:])
    graph = network.optimized({one.name: shape})
    assert {problem.x_shape[0] for problem in network.problems({one.name: shape})} == {3}
    assert [graph.values[name].shape[0] for name in graph.outputs.values()] == [3]
