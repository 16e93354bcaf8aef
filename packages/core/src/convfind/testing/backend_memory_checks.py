"""Checks of a backend's memory: allocation, copies, fills, arrays in place, adoption, overlap."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np

from convfind.errors import DeviceError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.recipe import Fill
from convfind.testing.backend_bench import (
    BackendBench,
    Unsupported,
    expect,
    expect_equal,
    refused,
)

_TYPES = ("int8", "uint8", "int16", "float16", "int32", "float32", "int64", "float64")


class _Foreign:
    """Memory of nobody."""

    size = 64


def aligned(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return zeros whose memory devices can use in place."""
    raw = np.zeros(4 * count + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + 4 * count].view(np.float32)


def allocated_memory_has_the_size_asked_for(bench: BackendBench) -> None:
    """Sizes from nothing to odd ones."""
    for size in (0, 1, 511, 4096, 100_003):
        expect(bench.device.allocate(size).size >= size, f"allocate({size}) returns less")
    refused(DeviceError, "allocate(-1)", bench.device.allocate, -1)


def memory_of_two_buffers_is_apart(bench: BackendBench) -> None:
    """Also after memory was dropped, which a pool hands out again."""
    for _ in range(3):
        first, second = bench.floats(np.full(64, 1)), bench.floats(np.full(64, 2))
        expect_equal(bench.read(first, 64), np.full(64, 1), "the first buffer")
        expect_equal(bench.read(second, 64), np.full(64, 2), "the second buffer")


def elements_of_every_type_come_back(bench: BackendBench) -> None:
    """By upload, and by allocation and write."""
    for dtype in (*map(np.dtype, _TYPES), np.dtype(ml_dtypes.bfloat16)):
        array = np.arange(-6, 6).reshape(3, 4).astype(dtype)
        for buffer in (bench.device.upload(array), bench.filled(array)):
            back = np.zeros_like(array)
            bench.device.read(buffer, back)
            expect(back.tobytes() == array.tobytes(), f"{dtype} changes on its way")


def reading_begins_where_it_is_told(bench: BackendBench) -> None:
    """At a byte offset."""
    buffer = bench.filled(np.arange(64, dtype=np.uint8))
    seen = np.empty(4, np.uint8)
    for offset in (0, 1, 60):
        bench.device.read(buffer, seen, offset)
        expect_equal(seen, np.arange(offset, offset + 4), f"read from byte {offset}")


def copies_that_do_not_fit_are_refused(bench: BackendBench) -> None:
    """Too many bytes, before the start, arrays with gaps, and memory of others."""
    device, buffer = bench.device, bench.floats(np.zeros(16))
    size = buffer.size
    large, gaps = np.zeros(size + 4, np.uint8), np.zeros((4, 4), np.float32).T[1:]
    bad: Any = _Foreign()
    refused(DeviceError, "write of too much", device.write, buffer, large)
    refused(DeviceError, "read of too much", device.read, buffer, large)
    refused(DeviceError, "read past the end", device.read, buffer, large[:4], size - 3)
    refused(DeviceError, "read before the start", device.read, buffer, large[:4], -4)
    refused(DeviceError, "write of an array with gaps", device.write, buffer, gaps)
    refused(DeviceError, "read into an array with gaps", device.read, buffer, gaps)
    refused(DeviceError, "write into another's memory", device.write, bad, large[:4])
    refused(DeviceError, "read of another's memory", device.read, bad, large[:4])
    refused(DeviceError, "fill of another's memory", device.fill, bad, 0)
    expect_equal(bench.read(buffer, 16), np.zeros(16), "memory after refused copies")


def empty_arrays_are_possible(bench: BackendBench) -> None:
    """No byte to copy."""
    empty = np.empty((0, 3), np.float32)
    buffer = bench.device.upload(empty)
    bench.device.write(buffer, empty)
    bench.device.read(buffer, empty)
    bench.device.fill(bench.device.allocate(0), 0)


def filling_sets_every_byte(bench: BackendBench) -> None:
    """With any byte, in memory of odd sizes."""
    for size, byte in ((1, 255), (4, 1), (101, 0xA5), (4096, 0)):
        buffer = bench.filled(np.full(size, 0x11, np.uint8))
        bench.device.fill(buffer, byte)
        expect_equal(bench.read(buffer, size, "uint8"), np.full(size, byte), f"{size} bytes")


def a_fill_step_clears_its_region_only(bench: BackendBench) -> None:
    """At offsets, of odd sizes, of nothing."""
    for offset, size in ((0, 4096), (512, 1024), (512, 20), (1024, 7), (0, 0)):
        buffer = bench.filled(np.full(4096, 0xFF, np.uint8))
        bench.run(InvokeArgs(y=buffer), Fill("y", offset, size))
        expected = np.full(4096, 0xFF, np.uint8)
        expected[offset : offset + size] = 0
        found = bench.read(buffer, 4096, "uint8")
        expect_equal(found, expected, f"fill of {size} bytes from {offset} on")


def uploaded_arrays_are_not_written(bench: BackendBench) -> None:
    """A read-only array may be uploaded; a buffer on its memory refuses to be written."""
    array = aligned(64)
    array.flags.writeable = False
    buffer = bench.device.upload(array)
    with suppress(DeviceError):  # it may be the array's own memory
        bench.device.fill(buffer, 1)
    bench.device.synchronize()
    expect(not array.any(), "the caller's array changes with the buffer")


def results_appear_in_wrapped_arrays(bench: BackendBench) -> None:
    """After the device was waited for; arrays that nobody may write are not wrapped."""
    array = aligned(64)
    array[:] = 7
    frozen = aligned(64)
    frozen.flags.writeable = False
    expect(bench.device.wrap_output(frozen) is None, "wraps an array that is read-only")
    buffer = bench.device.wrap_output(array)
    if buffer is None:
        raise Unsupported("kernels do not write into the host's memory")
    bench.run(InvokeArgs(y=buffer), Fill("y", 0, 128))
    expect_equal(array, np.repeat([0, 7], 32), "the wrapped array")


def own_memory_is_adopted_and_nothing_foreign(bench: BackendBench) -> None:
    """Buffers of the device, arrays of the host, any object."""
    buffer = bench.floats(np.arange(16))
    adopted = bench.device.adopt(buffer)
    expect(adopted is not None, "does not adopt its own buffer")
    assert adopted is not None
    expect_equal(bench.read(adopted, 16), np.arange(16), "an adopted buffer")
    expect(bench.device.overlap(buffer, adopted), "an adopted buffer does not overlap its own")
    for other in (np.zeros(4, np.float32), object(), None, "x"):
        expect(bench.device.adopt(other) is None, f"adopts {type(other).__name__}")


def buffers_overlap_where_they_share_memory(bench: BackendBench) -> None:
    """Themselves, and no other."""
    first, second = bench.device.allocate(1000), bench.device.allocate(1000)
    expect(bench.device.overlap(first, first), "a buffer does not overlap itself")
    expect(not bench.device.overlap(first, second), "two buffers overlap")


def parts_are_pieces_of_a_buffer_and_keep_it(bench: BackendBench) -> None:
    """Where a device has parts."""
    device = bench.device
    whole = bench.floats(np.arange(256))
    if not device.has_parts:
        refused(DeviceError, "a part where a device has none", device.part, whole, 0, 128)
        return
    part, other = device.part(whole, 256, 128), device.part(whole, 384, 128)
    expect(device.overlap(whole, part), "a part does not overlap its buffer")
    expect(not device.overlap(part, other), "two parts overlap")
    del whole
    device.fill(device.allocate(1024), 7)
    expect_equal(bench.read(part, 32), np.arange(64, 96), "a part")
    refused(DeviceError, "a part behind the end", device.part, other, 0, 256)


MEMORY_CHECKS = (
    allocated_memory_has_the_size_asked_for,
    memory_of_two_buffers_is_apart,
    elements_of_every_type_come_back,
    reading_begins_where_it_is_told,
    copies_that_do_not_fit_are_refused,
    empty_arrays_are_possible,
    filling_sets_every_byte,
    a_fill_step_clears_its_region_only,
    uploaded_arrays_are_not_written,
    results_appear_in_wrapped_arrays,
    own_memory_is_adopted_and_nothing_foreign,
    buffers_overlap_where_they_share_memory,
    parts_are_pieces_of_a_buffer_and_keep_it,
)
