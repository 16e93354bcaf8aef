"""The stand-in ROCm as tests use it: built, put where hip-python looks, and asked what still lives.

`use()` must come before the first call of hip-python in a process, which finds its libraries then.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

import standin_build

missing = standin_build.missing
place = standin_build.place


@dataclass(frozen=True, slots=True)
class Standin:
    """The stand-in's libraries, loaded into this process."""

    root: Path

    def count(self, what: str) -> int:
        """How many of these live: allocations, host allocations, bytes, streams, events, modules.

        ``launches`` counts the kernels that ran since the start.
        """
        function = self.library("amdhip64").standinCount
        function.restype = ctypes.c_long
        return int(function(what.encode()))

    def live(self) -> dict[str, int]:
        """Everything that somebody has to give back."""
        kinds = ("allocations", "host allocations", "streams", "events", "modules")
        return {kind: self.count(kind) for kind in kinds}

    def reason(self) -> str:
        """Why the device broke the last time."""
        function = self.library("amdhip64").standinReason
        function.restype = ctypes.c_char_p
        return str(function().decode())

    def reset(self) -> None:
        """Make a broken device work again."""
        self.library("amdhip64").hipDeviceReset()

    def library(self, name: str) -> ctypes.CDLL:
        """Return one of the three libraries."""
        return ctypes.CDLL(str(self.root / "lib" / f"lib{name}.so"))


@cache
def use() -> Standin:
    """Build the stand-in where needed and let hip-python find it."""
    root = standin_build.build()
    os.environ["ROCM_PATH"] = str(root)
    return Standin(root)
