"""Large pages under the buffers of CPUs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from convfind.device.target import DeviceKind
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.large_pages import LARGE_PAGE, whole_pages
from convfind_backend_opencl.memory import OpenCLPool

MIB = 1 << 20
_MADE_OF = Path("/proc/self/smaps")


def advised(address: int) -> bool:
    """Tell whether the system was asked for a large page at an address."""
    inside = False
    for line in _MADE_OF.read_text().splitlines():
        bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if bounds:
            inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    raise AssertionError(f"nothing lies at {address}")


def lies_on_heap(address: int) -> bool:
    """Return whether other buffers may have had the same memory before."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(bound, 16) for bound in line.split()[0].split("-"))
        if low <= address < high:
            return line.endswith("[heap]")
    return False


def address_of(device: OpenCLDevice, memory: cl.Buffer) -> int:
    byte, _ = cl.enqueue_map_buffer(
        device.queue, memory, cl.map_flags.READ, 0, (1,), np.dtype(np.uint8), is_blocking=True
    )
    address: int = byte.__array_interface__["data"][0]
    byte.base.release(device.queue)
    return address


@pytest.mark.skipif(
    sys.platform != "linux" or not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="the system has no large pages",
)
def test_what_a_buffer_fills_is_in_large_pages(device: OpenCLDevice) -> None:
    if device.target.kind is not DeviceKind.CPU:
        pytest.skip("memory of its own")
    block = OpenCLPool(device.context, device.queue, 0).take(7 * MIB)  # nobody's before
    first = address_of(device, block.memory)
    end = first + 7 * MIB
    assert advised(first)
    assert advised(end // LARGE_PAGE * LARGE_PAGE - 1)
    if end % LARGE_PAGE and not lies_on_heap(end - 1):  # a page that it does not fill
        assert not advised(end - 1)


def test_contents_of_large_pages_are_those_written(device: OpenCLDevice) -> None:
    written = np.random.default_rng(0).integers(0, 256, 5 * MIB + 3, np.uint8)
    buffer = device.allocate(written.size)
    device.write(buffer, written)
    read = np.empty_like(written)
    device.read(buffer, read)
    assert (read == written).all()


def test_whole_pages_as_far_as_the_device_allows_them() -> None:
    assert whole_pages(3 * MIB, 8 * MIB) == 4 * MIB
    assert whole_pages(4 * MIB, 4 * MIB) == 4 * MIB
    assert whole_pages(5 * MIB, 5 * MIB) == 5 * MIB
