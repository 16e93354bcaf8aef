"""ONNX Runtime on CPUs: forward, with weights that it packs when a session is made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from convfind.problem import ConvProblem
from convfind.types import DataType, Direction
from peers.timing import Contestant, host_timer

#: 45 ms were seen; other machines may be slower.
_SPIN_S = 0.1


def contestants(problem: ConvProblem, threads: int) -> Iterator[Contestant]:
    """Yield ONNX Runtime for float32 forward problems."""
    if problem.direction is not Direction.FORWARD or problem.dtype is not DataType.FLOAT32:
        return
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(
        _model(problem).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    generator = np.random.default_rng(0)
    binding = session.io_binding()
    binding.bind_cpu_input("x", generator.random(problem.x_shape, np.float32))
    y = ort.OrtValue.ortvalue_from_shape_and_type(problem.y_shape, np.float32)
    binding.bind_ortvalue_output("y", y)
    timer = host_timer(lambda: session.run_with_iobinding(binding))
    yield Contestant("ONNX Runtime", True, timer, spin_s=_SPIN_S)


def _model(problem: ConvProblem) -> onnx.ModelProto:
    weights = np.random.default_rng(1).random(problem.w_shape, np.float32)
    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        strides=problem.stride,
        pads=(*problem.padding, *problem.padding_end),
        dilations=problem.dilation,
        group=problem.groups,
    )
    graph = helper.make_graph(
        [node],
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, problem.x_shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, problem.y_shape)],
        [numpy_helper.from_array(weights, "w")],
    )
    # An intermediate representation and operators that runtimes of the last years all know.
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
