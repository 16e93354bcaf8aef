"""Runs an ONNX model: convolution, ReLU and global pooling as one plan, checked against float64."""

from __future__ import annotations

import numpy as np
import onnx
import rich
from onnx import TensorProto, helper, numpy_helper

import convfind
from convfind_networks import Network, evaluate


def model() -> onnx.ModelProto:
    """Make a small model, which a file would be read instead of."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((8, 3, 3, 3), dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["sums"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["sums"], ["features"]),
            helper.make_node("GlobalAveragePool", ["features"], ["y"]),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8, 1, 1])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def main() -> None:
    """Compile for a batch of 4, run, and compare."""
    network = Network.from_onnx(model())
    x = np.random.default_rng(1).standard_normal((4, 3, 16, 16), dtype=np.float32)
    with convfind.open("opencl:cpu") as handle:
        plan = network.compile(handle, {"batch": 4}, time_budget=5)
        rich.print(plan.explain())
        y = plan.run({"x": x})["y"]
    right = evaluate(network.graph({"batch": 4}), {"x": x})["y"]
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
