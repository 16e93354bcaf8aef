"""The report of NVIDIA's assembler on each kernel, from a build log."""

from __future__ import annotations

import re
from dataclasses import replace

from convfind.device.kernel_figures import KernelFigures

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_FRAME = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", re.ASCII
)
_REGISTERS = re.compile(r"Used (\d+) registers", re.ASCII)
_SERIALIZED = re.compile(r"'(\w+)'[^\n]*serialized|serialized[^\n]*'(\w+)'")


def figures_in(log: str) -> dict[str, KernelFigures]:
    """Return what a build log says of each kernel, by its entry point."""
    found: dict[str, KernelFigures] = {}
    current = None
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            current = match[1]
            found[current] = KernelFigures(current)
        if current is None:
            continue
        known = found[current]
        if match := _FRAME.search(line):
            stack, stores, loads = map(int, match.groups())
            spilled = known.spilled + stores + loads
            found[current] = replace(known, stack=max(known.stack, stack), spilled=spilled)
        if match := _REGISTERS.search(line):
            found[current] = replace(known, registers=int(match[1]))
    waiting = {name for match in _SERIALIZED.finditer(log) for name in match.groups() if name}
    for entry in waiting & found.keys():
        found[entry] = replace(found[entry], is_serialized=True)
    return found
