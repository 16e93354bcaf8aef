"""OpenVINO on CPUs with a whole network, in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import openvino as ov

from peers.timing import Contestant, host_timer

#: OpenVINO's threads stay awake for a while, as ONNX Runtime's do.
_SPIN_S = 0.1


def contestant(model: onnx.ModelProto, threads: int, x: np.ndarray[Any, Any]) -> Contestant:
    """Return OpenVINO with a network of one input, made for the least time of one run."""
    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": threads})
    read = core.read_model(model.SerializeToString())
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(read, "CPU", options).create_infer_request()
    tensor = ov.Tensor(x, shared_memory=True)
    return Contestant("OpenVINO", True, host_timer(lambda: request.infer([tensor])), _SPIN_S)
