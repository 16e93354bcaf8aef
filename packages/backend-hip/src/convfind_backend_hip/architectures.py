"""Properties of AMD's instruction sets: facts that the runtime does not tell without a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: With MFMA instructions, which multiply matrices.
MATRIX_CORES: Final = frozenset({"gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})

#: With instructions that sum four products of bytes.
BYTE_DOT_PRODUCTS: Final = MATRIX_CORES | frozenset(
    {"gfx906", "gfx1030", "gfx1031", "gfx1032", "gfx1100", "gfx1101", "gfx1102"}
)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A device of an instruction set, for compiling where there is none."""

    name: str  # as in Target
    compute_units: int
    wave_size: int
    cache: int  # last level, in bytes


_MIB = 1 << 20
#: The largest device of each instruction set.
KNOWN: Final = {
    "gfx900": Architecture("AMD Radeon RX Vega", 64, 64, 4 * _MIB),
    "gfx906": Architecture("AMD Instinct MI60", 64, 64, 4 * _MIB),
    "gfx908": Architecture("AMD Instinct MI100", 120, 64, 8 * _MIB),
    "gfx90a": Architecture("AMD Instinct MI250X", 110, 64, 8 * _MIB),
    "gfx942": Architecture("AMD Instinct MI300X", 304, 64, 256 * _MIB),
    "gfx1030": Architecture("AMD Radeon RX 6900 XT", 40, 32, 128 * _MIB),
    "gfx1100": Architecture("AMD Radeon RX 7900 XTX", 48, 32, 96 * _MIB),
}


def processor(arch: str) -> str:
    """Return ``gfx90a`` for ``gfx90a:sramecc+:xnack-``."""
    return arch.partition(":")[0]


def feature_words(arch: str) -> frozenset[str]:
    """Return the words that solvers may ask for; the package's README explains each."""
    words = {"fp16", "fp64", "int8"}
    words |= {word[:-1] for word in arch.split(":")[1:] if word.endswith("+")}
    if processor(arch) in MATRIX_CORES:
        words.add("mfma")
    if processor(arch) in BYTE_DOT_PRODUCTS:
        words.add("dot4")
    return frozenset(words)
