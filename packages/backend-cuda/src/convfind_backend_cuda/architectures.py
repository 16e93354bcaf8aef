"""Properties of NVIDIA's architectures: facts that nothing tells without a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Architecture:
    """A device of an architecture, for compiling where there is none."""

    name: str  # as in Target
    compute_units: int
    cache: int  # level 2, in bytes
    memory: int  # in bytes


_MIB, _GIB = 1 << 20, 1 << 30
#: A usual device of each architecture, by the name that `Target.arch` has.
KNOWN: Final = {
    "sm_75": Architecture("Tesla T4", 40, 4 * _MIB, 16 * _GIB),
    "sm_80": Architecture("NVIDIA A100-SXM4-80GB", 108, 40 * _MIB, 80 * _GIB),
    "sm_86": Architecture("NVIDIA A10G", 80, 6 * _MIB, 24 * _GIB),
    "sm_89": Architecture("NVIDIA L40S", 142, 96 * _MIB, 48 * _GIB),
    "sm_90": Architecture("NVIDIA H100 80GB HBM3", 132, 50 * _MIB, 80 * _GIB),
    "sm_100": Architecture("NVIDIA B200", 148, 126 * _MIB, 180 * _GIB),
    "sm_120": Architecture("NVIDIA GeForce RTX 5090", 170, 96 * _MIB, 32 * _GIB),
}

#: Words that solvers may ask for; the package's README explains each.
FEATURES: Final = frozenset({"fp16", "fp64", "int8", "dot4", "nv-ptx"})

#: Architectures whose code has to be made for exactly one kind of device: some instructions are
#: nowhere else, such as Hopper's wgmma.
_EXACT: Final = frozenset({"sm_90"})


def compiled_for(arch: str) -> str:
    """Return the architecture that NVRTC is told: ``sm_90a`` for ``sm_90``."""
    return f"{arch}a" if arch in _EXACT else arch


def plain(arch: str) -> str:
    """Return ``sm_90`` for ``sm_90a``."""
    return arch.rstrip("af")
