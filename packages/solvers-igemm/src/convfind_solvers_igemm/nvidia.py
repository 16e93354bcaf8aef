"""What solvers ask about NVIDIA's GPUs."""

from __future__ import annotations

import re

from convfind.target import Target


def compute_capability(target: Target) -> int:
    """Return 90 for ``sm_90`` where kernels may have inline PTX; 0 for any other device."""
    found = re.fullmatch(r"sm_(\d+)", target.arch)
    return int(found[1]) if found and target.has("nv-ptx") else 0
