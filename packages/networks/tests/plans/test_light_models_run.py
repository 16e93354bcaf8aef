"""The networks that ship with ONNX run on a device, through its backend interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from networks_for_tests import LIGHT_MODELS

from convfind.handle import Handle
from convfind_networks import Network
from convfind_networks.onnx_backend import PreparedModel

#: Memory between tasks, as a part of what any plan needs.
_MOST = 1.05
#: Those that are run: the others have the same operators, and compile longer.
RUN = [path for path in LIGHT_MODELS if path.stem.endswith(("squeezenet", "shufflenet"))]


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_results_and_memory_are_right(handle: Handle, path: Path) -> None:
    ready = PreparedModel(Network.from_onnx(path), handle, {"on_miss": "estimate"})
    (one,) = ready.network.inputs
    shape: Any = one.dims
    # The inputs of the stored outputs: a ramp, as ONNX's runner makes it.
    ramp = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / np.prod(shape)
    (result,) = ready.run([ramp.astype(np.float32)])
    stored = onnx.TensorProto()
    stored.ParseFromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
    np.testing.assert_allclose(result, onnx.numpy_helper.to_array(stored), rtol=1e-3, atol=1e-7)
    for schedule in ready.schedules:
        assert schedule.arena <= _MOST * schedule.lower_bound
