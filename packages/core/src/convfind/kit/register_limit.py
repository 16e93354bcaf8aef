"""The option that limits the registers of a kernel's items on NVIDIA's GPUs."""

from __future__ import annotations

from convfind.device.target import Target

#: A whole number follows.
OPTION = "-cl-nv-maxrregcount="
#: What an item may have.
ALL_REGISTERS = 255


def register_limit(target: Target, most: int = ALL_REGISTERS) -> tuple[str, ...]:
    """Return a program's option that limits registers; nothing on other devices.

    With any limit, even of all registers, NVIDIA's assembler does not look for one of its own, for
    which it may spill registers to run more work-groups at a time.

    Args:
        target: the device.
        most: registers of an item, 8 to 255.
    """
    return (f"{OPTION}{most}",) if target.has("nv-ptx") else ()
