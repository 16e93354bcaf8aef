"""`Target` of NumPy: this machine's CPU, as one unit."""

from __future__ import annotations

import platform

import numpy as np

from convfind.device.host_cpu import host_model
from convfind.device.target import DeviceKind, Target

_GLOBAL_MEMORY = 4 << 30
_CACHE = 32 << 20


def describe() -> Target:
    """Return the target. Properties that change from day to day have no place in it."""
    return Target(
        backend="numpy",
        name="NumPy",
        kind=DeviceKind.CPU,
        vendor="NumPy",
        platform="NumPy",
        arch=platform.machine().lower(),
        compute_units=1,
        driver=np.__version__,
        features=frozenset({"unified-memory"}),
        global_memory=_GLOBAL_MEMORY,
        cache=_CACHE,
        cpu_model=host_model(),
    )
