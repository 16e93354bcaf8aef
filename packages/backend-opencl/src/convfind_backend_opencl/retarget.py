"""`retarget`: PTX for what only one architecture has, from a compiler that does not know it.

NVIDIA's OpenCL compiler writes PTX for ``sm_90``, for which the assembler refuses Hopper's
``wgmma``. Kernels write such instructions as PTX comments behind ``//@``; the compiler fills in the
registers and passes them on. In the finished text the marks are taken away and the target gets the
suffix ``a``; the driver assembles the result when it loads it.
"""

from __future__ import annotations

import re

#: Before an instruction that the compiler must not look at.
MARK = b"//@"
_TARGET = re.compile(rb"^(\s*\.target\s+sm_90)\b", re.MULTILINE)


def retarget(code: bytes) -> bytes:
    """Return PTX with its marked instructions for ``sm_90a``, and anything else as it is.

    Marks are looked for in PTX of ``sm_90`` only: other architectures never get these instructions.
    """
    if MARK not in code or not _TARGET.search(code):
        return code
    return _TARGET.sub(rb"\1a", code).replace(MARK, b"")
