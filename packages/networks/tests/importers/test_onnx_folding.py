"""What computes a model's shapes is gone when the graph is made."""

from __future__ import annotations

import numpy as np
from networks_for_tests import onnx_model
from onnx import TensorProto, helper

from convfind_networks import Network, evaluate


def test_shapes_that_a_model_computes_are_known() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    weights = {"zero": np.int64(0), "axes": np.asarray([0]), "rest": np.asarray([-1])}
    network = Network.from_onnx(onnx_model(nodes, {"x": ("n", 3, 4)}, weights=weights))
    graph = network.graph({"n": 5})
    assert [node.op.kind for node in graph.nodes] == ["Reshape"]
    assert graph.values[graph.outputs["y"]].shape == (5, 12)


def test_sizes_of_a_resize_that_a_model_computes_are_known() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=2),
        helper.make_node("Cast", ["shape"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "two"], ["twice"]),
        helper.make_node("Floor", ["twice"], ["floor"]),
        helper.make_node("Cast", ["floor"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Shape", ["x"], ["outer"], end=2),
        helper.make_node("Concat", ["outer", "whole"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"]),
    ]
    weights = {"two": np.float32(2)}
    graph = Network.from_onnx(onnx_model(nodes, {"x": (1, 2, 3, 4)}, weights=weights)).graph()
    assert [node.op.kind for node in graph.nodes] == ["Resize"]
    assert graph.values[graph.outputs["y"]].shape == (1, 2, 6, 8)


def test_a_constant_condition_chooses_its_branch() -> None:
    def branch(name: str, operator: str) -> object:
        node = helper.make_node(operator, ["x"], [f"{name}_y"])
        out = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        return helper.make_graph([node], name, [], [out])

    node = helper.make_node(
        *("If", ["condition"], ["y"]),
        then_branch=branch("then", "Neg"),
        else_branch=branch("else", "Abs"),
    )
    for condition, expected in ((True, -2.0), (False, 2.0)):
        weights = {"condition": np.asarray(condition)}
        model = onnx_model([node], {"x": (1,)}, weights=weights)
        graph = Network.from_onnx(model).graph()
        assert evaluate(graph, {"x": np.asarray([2.0])})["y"] == [expected]
