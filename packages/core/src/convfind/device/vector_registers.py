"""`VectorRegisters`: what a core of a CPU keeps numbers in, by architecture."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target


@dataclass(frozen=True, slots=True)
class VectorRegisters:
    """The vector registers of a CPU core.

    Attributes:
        count: how many there are.
        floats: float32 numbers that each of them holds.
    """

    count: int
    floats: int

    @classmethod
    def of(cls, target: Target) -> VectorRegisters:
        """Return the registers of a CPU; of an unknown architecture, those of AArch64."""
        return _REGISTERS.get(target.arch, _AARCH64)

    @property
    def are_wide(self) -> bool:
        """True if each holds a vector of 16 floats whole."""
        return self.floats >= 16


_AARCH64 = VectorRegisters(count=32, floats=4)
_REGISTERS = {
    "x86-64-avx512": VectorRegisters(count=32, floats=16),
    "x86-64-avx2": VectorRegisters(count=16, floats=8),
}
