"""Whole architectures as ONNX models on a device: their results are those of PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from architectures_for_tests import ARCHITECTURES

from convfind.handle import Handle
from convfind_networks import Network, evaluate


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_as_onnx_model_computes_what_pytorch_does(
    name: str, handle: Handle
) -> None:
    torch.manual_seed(0)
    one = ARCHITECTURES[name]()
    wanted = [result.numpy() for result in one.outputs()]
    network = Network.from_onnx(one.onnx_model())
    plan = network.compile(handle, one.sizes(), on_miss="estimate")
    got = plan.run({key: tensor.numpy() for key, tensor in one.inputs.items()})
    for right, result in zip(wanted, got.values(), strict=True):
        assert result.shape == right.shape
        np.testing.assert_allclose(result, right, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_is_read_as_pytorch_means_it(name: str) -> None:
    torch.manual_seed(0)
    one = ARCHITECTURES[name]()
    graph = Network.from_onnx(one.onnx_model()).graph(one.sizes())
    got = evaluate(graph, {key: tensor.numpy() for key, tensor in one.inputs.items()})
    for right, result in zip(one.outputs(), got.values(), strict=True):
        np.testing.assert_allclose(result, right.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of itself while it exports
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_that_is_exported_whole_is_read_as_pytorch_means_it(name: str) -> None:
    torch.manual_seed(0)
    one = ARCHITECTURES[name]()
    program = torch.export.export(one.module, tuple(one.inputs.values()))
    graph = Network.from_torch(program).graph()
    given = zip(graph.inputs, one.inputs.values(), strict=True)
    got = evaluate(graph, {key: tensor.numpy() for key, tensor in given})
    for right, result in zip(one.outputs(), got.values(), strict=True):
        np.testing.assert_allclose(result, right.numpy(), rtol=1e-3, atol=1e-4)
