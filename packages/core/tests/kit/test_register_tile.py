"""Tiles of CPU kernels fit the registers of the CPU that they are for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convfind.device.target import DeviceKind
from convfind.device.vector_registers import VectorRegisters
from convfind.kit.register_tile import (
    BROADCAST,
    COMPLEX,
    OUTER,
    PRODUCT,
    TRANSFORMED,
    RegisterTile,
    has_many_registers,
)
from convfind.testing import MOCK_TARGET

#: Vectors of 16 floats in a tile, and registers that hold one of them.
CPUS = {"x86-64-avx512": (32, 16), "x86-64-avx2": (16, 8), "aarch64": (32, 4), "riscv64": (32, 4)}
CPU = replace(MOCK_TARGET, identity="", kind=DeviceKind.CPU)


@pytest.mark.parametrize("arch", CPUS)
def test_registers_are_known_by_architecture(arch: str) -> None:
    registers = VectorRegisters.of(replace(CPU, identity="", arch=arch))
    assert (registers.count, registers.floats) == CPUS[arch]


def test_only_32_registers_of_16_floats_are_many() -> None:
    many = [arch for arch in CPUS if has_many_registers(replace(CPU, identity="", arch=arch))]
    assert many == ["x86-64-avx512"]


@pytest.mark.parametrize("arch", CPUS)
@pytest.mark.parametrize(
    ("tile", "numbers"),
    [(PRODUCT, 1), (BROADCAST, 1), (TRANSFORMED, 1), (OUTER, 1), (COMPLEX, 2)],
    ids=["product", "broadcast", "transformed", "outer", "complex"],
)
def test_sums_and_a_row_of_factors_fit_the_registers(
    tile: RegisterTile, numbers: int, arch: str
) -> None:
    count, floats = CPUS[arch]
    rows, vectors = tile.of(replace(CPU, identity="", arch=arch))
    assert (rows + 1) * vectors * numbers * 16 // floats <= count
