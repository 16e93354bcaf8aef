"""`KernelFigures`: what a compiler says of a kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """A kernel's registers, and its private memory in bytes of a work-item."""

    entry: str
    registers: int | None = None  # None: nothing was said
    stack: int = 0
    spilled: int = 0  # stored and loaded
    is_serialized: bool = False  # products of the matrix units wait for each other
