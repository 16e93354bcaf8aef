"""Additions to the PTX of NVIDIA's OpenCL compiler: instructions of one architecture, and limits.

NVIDIA's OpenCL compiler writes PTX for ``sm_90``, for which the assembler refuses Hopper's
``wgmma``. Kernels write such instructions as PTX comments behind ``//@``; the compiler fills in the
registers and passes them on. In the finished text the marks are taken away and the target gets the
suffix ``a``; the driver assembles the result when it loads it. By then it has forgotten the option
for the number of registers, so that this goes into the text, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from convfind.kit.register_limit import OPTION

#: Before an instruction that the compiler must not look at.
MARK = b"//@"
_REQUIRED_SIZE = re.compile(rb"^\s*\.reqntid\s.*$", re.MULTILINE)
_TARGET = re.compile(rb"^(\s*\.target\s+sm_90)\b", re.MULTILINE)


def retarget(code: bytes) -> bytes:
    """Return PTX with its marked instructions for ``sm_90a``, and anything else as it is.

    Marks are looked for in PTX of ``sm_90`` only: other architectures never get these instructions.
    """
    if MARK not in code or not _TARGET.search(code):
        return code
    return _TARGET.sub(rb"\1a", code).replace(MARK, b"")


def limit_registers(code: bytes, options: Iterable[str]) -> bytes:
    """Return PTX whose kernels of a required work-group size obey ``-cl-nv-maxrregcount=N``.

    A limit also keeps the assembler from trading the registers that a kernel wants for more
    work-groups at a time.
    """
    for option in options:
        if option.startswith(OPTION):
            registers = int(option.removeprefix(OPTION))
            code = _REQUIRED_SIZE.sub(rb"\g<0>\n.maxnreg %d" % registers, code)
    return code
