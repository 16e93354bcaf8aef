"""Registers of NVIDIA's GPUs, and the compiler's limit on those of a work-item."""

from __future__ import annotations

from convfind.device.target import Target

#: A whole number follows.
OPTION = "-cl-nv-maxrregcount="
#: 32-bit registers of a unit, and those that a work-item may have.
UNIT_REGISTERS = 64 * 1024
ALL_REGISTERS = 255


def register_limit(target: Target, most: int = ALL_REGISTERS) -> tuple[str, ...]:
    """Return the option that limits a program's registers; nothing on other devices.

    Any limit, even of all registers, keeps NVIDIA's assembler from choosing a lower one, which
    allows more work-groups at a time but may spill registers.

    Args:
        target: the device.
        most: registers per work-item, 8 to 255.
    """
    return (f"{OPTION}{most}",) if target.has("nv-ptx") else ()
