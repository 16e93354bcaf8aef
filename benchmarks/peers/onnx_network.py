"""ONNX Runtime on CPUs with a whole network: a model, or convfind's own graph as one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from convfind_networks import Graph, Node
from convfind_networks.ops import (
    Activate,
    ActivationKind,
    BatchNorm,
    Binary,
    BinaryFunction,
    Convolution,
    GlobalPool,
    Identity,
    Linear,
    MaxPool,
    Reshape,
)
from peers.timing import Contestant, host_timer

#: 45 ms were seen; other machines may be slower.
_SPIN_S = 0.1


def session_of(model: onnx.ModelProto, threads: int) -> ort.InferenceSession:
    """Return ONNX Runtime with a model."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def contestant(session: ort.InferenceSession, x: np.ndarray[Any, Any]) -> Contestant:
    """Return ONNX Runtime with a network of one input."""
    return Contestant("ONNX Runtime", True, host_timer(lambda: result_of(session, x)), _SPIN_S)


def result_of(session: ort.InferenceSession, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the first result for the only input."""
    (given,) = session.get_inputs()
    result: np.ndarray[Any, Any] = session.run(None, {given.name: x})[0]
    return result


def model_of(graph: Graph) -> onnx.ModelProto:
    """Return a graph of the operations of image classifiers as an ONNX model."""
    constants = {name for name, value in graph.values.items() if value.is_constant}
    weights = [numpy_helper.from_array(np.array(graph.values[n].data), n) for n in constants]
    nodes = [one for node in graph.nodes for one in _nodes(graph, node, weights)]
    inputs = [_info(name, graph.values[name].shape) for name in graph.inputs]
    outputs = [_info(name, graph.values[name].shape) for name in graph.outputs.values()]
    made = helper.make_graph(nodes, "network", inputs, outputs, weights)
    return helper.make_model(made, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def _info(name: str, shape: tuple[int, ...]) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _nodes(graph: Graph, node: Node, weights: list[Any]) -> Iterator[Any]:
    reads, writes = list(node.inputs), list(node.outputs)
    match node.op:
        case Convolution(geometry=geometry):
            yield helper.make_node(
                "Conv",
                reads,
                writes,
                strides=geometry.stride,
                pads=(*geometry.padding, *geometry.padding_end),
                dilations=geometry.dilation,
                group=geometry.groups,
            )
        case Linear():
            yield helper.make_node("Gemm", reads, writes, transB=1)
        case BatchNorm(epsilon=epsilon):
            yield helper.make_node("BatchNormalization", reads, writes, epsilon=epsilon)
        case Activate(activation=activation) if activation.kind is ActivationKind.RELU:
            yield helper.make_node("Relu", reads, writes)
        case Activate(activation=activation) if activation.kind is ActivationKind.CLIP:
            names = [f"{node.output}.bound{at}" for at in range(2)]
            for name, number in zip(names, activation.numbers, strict=True):
                weights.append(numpy_helper.from_array(np.array(number, np.float32), name))
            yield helper.make_node("Clip", [*reads, *names], writes)
        case Binary(function=BinaryFunction.ADD):
            yield helper.make_node("Add", reads, writes)
        case MaxPool(window=window):
            yield helper.make_node(
                "MaxPool",
                reads,
                writes,
                kernel_shape=window.size,
                strides=window.stride,
                pads=(*window.padding, *window.padding_end),
            )
        case GlobalPool():
            yield helper.make_node("GlobalAveragePool", reads, writes)
        case Reshape(shape=shape):
            name = f"{node.output}.shape"
            weights.append(numpy_helper.from_array(np.array(shape, np.int64), name))
            yield helper.make_node("Reshape", [*reads, name], writes)
        case Identity():
            yield helper.make_node("Identity", reads, writes)
        case _:
            raise NotImplementedError(str(node))
