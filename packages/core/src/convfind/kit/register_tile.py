"""The tile of a matrix product that fills the registers of a CPU."""

from __future__ import annotations

from convfind.device.target import Target

#: Rows, and vectors of 16 floats, by architecture: of 32 registers of 16 floats, and of 16 of 8.
REGISTER_TILES = {"x86-64-avx512": (12, 2), "x86-64-avx2": (6, 1)}
#: Of 32 registers of 4 floats.
_OTHER = (5, 1)


def register_tile(target: Target) -> tuple[int, int]:
    """Return rows and vectors of the register tile."""
    return REGISTER_TILES.get(target.arch, _OTHER)
