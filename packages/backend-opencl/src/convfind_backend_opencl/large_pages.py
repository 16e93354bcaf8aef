"""Asks the system for pages of 2 MiB under buffers of CPU runtimes.

Processors remember where some thousand pages lie. With pages of 4 KiB that is less than the weights
of one layer have, so that kernels wait for the tables of pages beside the memory itself.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

import numpy as np
import pyopencl as cl

#: Bytes of a large page. Systems whose large pages are of another size take no harm.
LARGE_PAGE = 2**21


def in_large_pages(context: cl.Context, queue: cl.CommandQueue, size: int) -> cl.Buffer:
    """Return a new buffer in the host's memory, of large pages as far as it fills them.

    Where the system has no large pages to give, it is a buffer like any other. Raises pyopencl's
    own errors.
    """
    advise = _advise()
    if advise is None or size < LARGE_PAGE:
        return cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
    whole = whole_pages(size, queue.device.max_mem_alloc_size)
    memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, whole)
    address = address_of(queue, memory)
    # Memory before the buffer in its first large page gets that one, too.
    begin = address // LARGE_PAGE * LARGE_PAGE
    end = (address + size) // LARGE_PAGE * LARGE_PAGE
    advise(begin, end - begin, mmap.MADV_HUGEPAGE)
    return memory


def whole_pages(size: int, most: int) -> int:
    """Return the bytes to allocate for so many, of which a device allows ``most``.

    Linux lays memory of whole large pages down at the beginning of one. Nobody touches what is not
    asked for, so that it takes none.
    """
    whole = -(-size // LARGE_PAGE) * LARGE_PAGE
    return whole if whole <= most else size


def address_of(queue: cl.CommandQueue, memory: cl.Buffer) -> int:
    """Return where a buffer lies; nothing waits for the queue."""
    flags = cl.map_flags.READ
    byte, _ = cl.enqueue_map_buffer(
        queue, memory, flags, 0, (1,), np.dtype(np.uint8), is_blocking=False
    )
    address: int = byte.__array_interface__["data"][0]
    byte.base.release(queue)
    return address


@cache
def _advise() -> Any:
    """`madvise` of the system's library; None where it knows no large pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    return function
