"""How a database that cannot be fully used says so: one warning, and lines for diagnosis."""

from __future__ import annotations

import warnings
from pathlib import Path


class FindDbWarning(UserWarning):
    """A database is not fully used; results are right, but some are not remembered."""


class Degradation:
    """Why one database is not fully used. Only the first reason is warned about."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reasons: list[str] = []

    def add(self, reason: str) -> None:
        """Note a reason; a known one is ignored."""
        line = f"{self._path}: {reason}"
        if line in self.reasons:
            return
        self.reasons.append(line)
        if len(self.reasons) == 1:
            warnings.warn(line, FindDbWarning, stacklevel=2)
