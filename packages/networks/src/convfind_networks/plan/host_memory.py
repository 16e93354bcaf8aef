"""Memory of the host that devices can use in place."""

from __future__ import annotations

import numpy as np

from convfind_networks.tensor_type import Array

#: Devices want such memory to begin at a multiple of it: 64 bytes for its vectors, 128 so that no
#: runtime copies what is only read.
_ALIGNMENT = 128


def aligned(nbytes: int) -> Array:
    """Return so many bytes with undefined contents."""
    raw = np.empty(nbytes + _ALIGNMENT, np.uint8)
    begin = -raw.ctypes.data % _ALIGNMENT
    return raw[begin : begin + nbytes]
