"""The models of PyTorch's layers that ship with ONNX: as they are, and after all passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from convfind_networks import Network, evaluate, optimize

DATA = Path(onnx.__file__).parent / "backend/test/data"
MODELS = sorted([*DATA.glob("pytorch-converted/*"), *DATA.glob("pytorch-operator/*")])


def read(path: Path) -> np.ndarray[Any, Any]:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return np.asarray(onnx.numpy_helper.to_array(tensor))


@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: folder.name)
def test_results_are_those_that_ship_with_the_model(folder: Path) -> None:
    network = Network.from_onnx(folder / "model.onnx")
    graph = network.graph()
    for data in folder.glob("test_data_set_*"):
        inputs = {one.name: read(data / f"input_{at}.pb") for at, one in enumerate(network.inputs)}
        for made in (graph, optimize(graph)):
            for at, got in enumerate(evaluate(made, inputs).values()):
                expected = read(data / f"output_{at}.pb")
                np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)
