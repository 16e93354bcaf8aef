"""`convfind_cpu_vector.h`: vectors in registers of CPUs."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory
from convfind_backend_opencl.device import OpenCLDevice


def test_sixteen_vectors_are_transposed(device: OpenCLDevice) -> None:
    if device.target.kind.value != "cpu":
        pytest.skip("vectors of CPUs")
    program = Program(KernelSource("opencl_test_kernels", "vectors.cl"))
    arguments = (BufferArg(Memory.X), BufferArg(Memory.Y))
    launch = Launch(KernelSpec(program, "turned"), arguments, (1,), (1,))
    square = np.arange(256, dtype=np.float32).reshape(16, 16)
    x, y = device.allocate(square.nbytes), device.allocate(square.nbytes)
    device.write(x, square)
    loaded = {program: device.load(program, device.compile(program))}
    device.invoker((launch,), loaded)(InvokeArgs(x=x, y=y))
    result = np.empty_like(square)
    device.read(y, result)
    np.testing.assert_array_equal(result, square.T)
