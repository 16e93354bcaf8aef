"""Tiles of matrix products that fill the vector registers of a CPU, by kind of kernel.

A tile has rows and vectors of 16 floats: ``rows, vectors = PRODUCT.of(target)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from convfind.device.target import Target
from convfind.device.vector_registers import VectorRegisters

Tile = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """The tile of one kind of kernel on every CPU.

    Attributes:
        wide: for 32 registers of 16 floats.
        few: for 16 registers of 8 floats.
        short: for 32 registers of 4 floats.
    """

    wide: Tile
    few: Tile
    short: Tile

    def of(self, target: Target) -> Tile:
        """Return rows and vectors of the tile on a CPU."""
        registers = VectorRegisters.of(target)
        if registers.are_wide:
            return self.wide
        return self.few if registers.count < 32 else self.short


def has_many_registers(target: Target) -> bool:
    """Return whether a CPU has 32 registers of 16 floats, or fewer of them or of fewer floats."""
    return VectorRegisters.of(target).are_wide


#: A product whose rows and vectors are loaded from packed panels.
PRODUCT: Final = RegisterTile(wide=(12, 2), few=(6, 1), short=(5, 1))
#: The same with rows that are broadcast from memory, which leaves registers to more of them.
BROADCAST: Final = RegisterTile(wide=(14, 2), few=(6, 1), short=(5, 1))
#: A product between transforms of tiles, which take some registers.
TRANSFORMED: Final = RegisterTile(wide=(12, 2), few=(6, 1), short=(4, 1))
#: A sum of outer products over transformed tiles.
OUTER: Final = RegisterTile(wide=(8, 2), few=(4, 1), short=(4, 1))
#: A product of complex numbers.
COMPLEX: Final = RegisterTile(wide=(6, 2), few=(2, 1), short=(2, 1))
