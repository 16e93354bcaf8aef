"""What goes wrong says what, with which values, and what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyopencl as cl
import pytest

from convfind.errors import DeviceError, LaunchError
from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.errors import opencl_errors, translated

FORK = """
import os, sys
import numpy as np
from convfind.errors import DeviceError
from convfind_backend_opencl import OpenCLBackend

device = OpenCLBackend().open("0")
buffer = device.allocate(64)
child = os.fork()
if child == 0:
    try:
        device.read(buffer, np.empty(4, np.float32))
    except DeviceError as exc:
        os._exit(0 if "does not survive a fork" in str(exc) else 2)
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_too_much_memory(device: OpenCLDevice) -> None:
    limit = device.queue.device.max_mem_alloc_size
    size = 1 << 46
    over = f"allocation of {size} bytes is over the device's limit of {limit} bytes"
    with pytest.raises(DeviceError, match=over):
        device.allocate(size)
    assert device.allocate(1024).size == 1024


def test_more_memory_than_there_is_left(device: OpenCLDevice) -> None:
    if device.target.kind != "gpu":
        pytest.skip(f"{device.target.name} takes its memory from the host")
    limit = device.queue.device.max_mem_alloc_size
    count = device.target.global_memory // limit + 1
    with pytest.raises(DeviceError, match=f"allocation of {limit} bytes .*MEM_OBJECT_ALLOCATION"):
        _ = [device.allocate(limit) for _ in range(count)]
    assert device.allocate(1024).size == 1024


def test_an_opencl_status_is_named(device: OpenCLDevice) -> None:
    small = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 64)
    with (
        pytest.raises(DeviceError, match=r"^a copy failed with INVALID_VALUE$") as caught,
        opencl_errors("a copy"),
    ):
        cl.enqueue_copy(device.queue, small, small, src_offset=0, dst_offset=32, byte_count=64)
    assert isinstance(caught.value.__cause__, cl.Error)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "clBuildProgram failed: OUT_OF_RESOURCES - x",
            "it failed with OUT_OF_RESOURCES; use",
        ),
        (
            "clFinish failed: <unknown error -9999>",
            "it failed with <unknown error -9999>; a",
        ),
        ("something else", "it failed with something else"),
    ],
)
def test_what_pyopencl_says_is_translated(words: str, message: str) -> None:
    error = translated(cl.Error(words), "it", LaunchError)
    assert isinstance(error, LaunchError)
    assert str(error).startswith(message)


def test_a_negative_size(device: OpenCLDevice) -> None:
    with pytest.raises(DeviceError, match="-1 bytes is not possible"):
        device.allocate(-1)


def test_arrays_that_do_not_fit(device: OpenCLDevice) -> None:
    buffer = device.allocate(64)
    with pytest.raises(DeviceError, match="68 bytes does not fit a buffer of 64 bytes"):
        device.write(buffer, np.zeros(17, np.float32))
    with pytest.raises(DeviceError, match="68 bytes does not fit a buffer of 64 bytes"):
        device.read(buffer, np.zeros(17, np.float32))
    with pytest.raises(DeviceError, match="not C-contiguous"):
        device.upload(np.zeros((4, 4), np.float32).T)
    with pytest.raises(DeviceError, match="not C-contiguous"):
        device.read(buffer, np.zeros((4, 4), np.float32)[:, ::2])


def test_a_foreign_buffer(device: OpenCLDevice) -> None:
    class Foreign:
        size = 64

    with pytest.raises(DeviceError, match="Foreign is not a buffer of the opencl backend"):
        device.fill(Foreign(), 0)


def test_a_closed_device(backend: OpenCLBackend, device: OpenCLDevice) -> None:
    number = backend.targets().index(device.target)
    other = backend.open(str(number))
    buffer = other.allocate(64)
    other.close()
    other.close()
    with pytest.raises(DeviceError, match="is closed; open it again"):
        other.allocate(64)
    with pytest.raises(DeviceError, match="is closed; open it again"):
        other.fill(buffer, 0)


@pytest.mark.usefixtures("device")
def test_a_forked_child_is_told(python: Callable[..., str]) -> None:
    assert python(FORK, PYTHONWARNINGS="ignore") == "0"
