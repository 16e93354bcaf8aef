"""`Target`: the device that a solution is for, as a value without any handle."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum


class DeviceKind(StrEnum):
    """Kind of a device; kernels are written for one kind."""

    CPU = "cpu"
    GPU = "gpu"
    ACCELERATOR = "accelerator"


@dataclass(frozen=True, slots=True)
class Target:
    """A device: its `identity`, the versions of its software (`driver`), and its properties.

    Sizes are in bytes. ``features`` holds words that solvers test for, e.g. ``fp16``, ``fp64``,
    ``int8``, ``nv-ptx``, ``sub-groups``; a backend documents the words that it sets.
    """

    backend: str  # "opencl", "hip", ...
    name: str  # the device's own name, blanks squeezed
    kind: DeviceKind
    vendor: str
    platform: str  # the runtime: "Intel(R) OpenCL", "NVIDIA CUDA", "ROCm"
    arch: str  # architecture of binaries: "sm_90", "gfx90a:sramecc+", "x86-64-avx512"
    compute_units: int
    driver: str  # version of driver and runtime; a change makes records stale, not wrong
    features: frozenset[str] = frozenset()
    local_memory: int = 0
    global_memory: int = 0
    cache: int = 0  # last-level cache, from which measurements must not profit
    max_work_group: int = 1
    wave_size: int = 1
    cpu_model: str = ""  # of a CPU: its maker's numbers, `convfind.device.host_cpu.host_model`
    identity: str = ""  # filled from the fields above; part of every database key
    #: The identity, then the one that it had while those of CPUs did not say their model: records
    #: under the former one are of a CPU of this name, most likely this one.
    identities: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        former = self._identity(self.name)
        if not self.identity:
            name = f"{self.name} ({self.cpu_model})"
            own = self._identity(name) if self.cpu_model else former
            object.__setattr__(self, "identity", own)
        known = (self.identity, former) if self.cpu_model else (self.identity,)
        object.__setattr__(self, "identities", known)

    @property
    def compiler(self) -> str:
        """Identity of the compiler and of its target: part of every binary's key."""
        return f"{self.backend}|{self.platform}|{self.arch}|{self.driver}"

    @property
    def compute_capability(self) -> int:
        """Compute capability of an NVIDIA GPU with inline PTX, 90 for ``sm_90``; otherwise 0."""
        found = re.fullmatch(r"sm_(\d+)", self.arch)
        return int(found[1]) if found and self.has("nv-ptx") else 0

    @property
    def is_amd(self) -> bool:
        """True for AMD's GPUs, whichever runtime compiles for them."""
        return self.arch.startswith("gfx")

    def has(self, feature: str) -> bool:
        """Return whether the device has the named feature."""
        return feature in self.features

    def _identity(self, name: str) -> str:
        return f"{self.backend}|{self.platform}|{name}|{self.arch}|{self.compute_units}"
