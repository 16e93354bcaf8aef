"""The CPU of this machine: its instruction set, and its maker's numbers for its model."""

from __future__ import annotations

import platform
import re
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")
_LEVELS = {"avx512f": "-avx512", "avx2": "-avx2"}
#: The numbers' names on Linux and Windows, on x86 and on Arm.
_NUMBERS = (
    r"cpu family\s*:\s*(?P<family>\d+)\s+model\s*:\s*(?P<model>\d+)",
    r"CPU implementer\s*:\s*(?P<implementer>\w+)[^\0]*?CPU part\s*:\s*(?P<part>\w+)",
    r"Family (?P<family>\d+) Model (?P<model>\d+)",
)


def host_arch() -> str:
    """Return the instruction set of this machine's CPU: ``x86-64-avx512``, ``aarch64``.

    Vector instructions are known on Linux only.
    """
    machine = platform.machine().lower()
    if machine not in ("x86_64", "amd64"):
        return machine
    flags = _linux_text().split()
    level = next((name for flag, name in _LEVELS.items() if flag in flags), "")
    return "x86-64" + level


def host_model() -> str:
    """Return the numbers of this machine's CPU: ``family 25 model 17``, by CPUID; empty if unknown.

    Different CPUs may have the same name, mostly in virtual machines. On Arm the text is
    ``implementer 0x41 part 0xd40``, of the first core. Linux and Windows tell; macOS does not.
    """
    text = _linux_text() or platform.processor()
    for pattern in _NUMBERS:
        if found := re.search(pattern, text):
            return " ".join(f"{name} {number}" for name, number in found.groupdict().items())
    return ""


def _linux_text() -> str:
    try:
        return _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
