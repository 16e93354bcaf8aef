"""GPUs for the tests of solvers on machines without one."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from convfind.backend import Device
from convfind.kernel_spec import Program
from convfind.target import DeviceKind
from convfind.testing import MOCK_TARGET

#: A GPU of nobody's, for what solvers say about one.
PLAIN_GPU = replace(
    MOCK_TARGET,
    identity="",
    backend="opencl",
    kind=DeviceKind.GPU,
    compute_units=132,
    local_memory=48 * 1024,
    max_work_group=1024,
)
H200 = replace(PLAIN_GPU, identity="", arch="sm_90", features=frozenset({"nv-ptx"}))


def as_gpu(device: Device, **changes: Any) -> Device:
    """Return a CPU with a target changed to a GPU's, and a GPU as it is.

    It compiles without optimisation, which takes a tenth of the time: what it optimises is the code
    of a CPU, which never gets these kernels. On the stand-in ROCm they run optimised.
    """
    if device.target.kind is DeviceKind.GPU:
        return device
    copied = copy.copy(device)
    copied.target = replace(device.target, identity="", kind=DeviceKind.GPU, **changes)

    def compile_as_written(program: Program) -> bytes:
        return device.compile(replace(program, options=(*program.options, "-cl-opt-disable")))

    copied.compile = compile_as_written  # type: ignore[method-assign]
    return copied
