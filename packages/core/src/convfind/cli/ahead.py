"""Programs that `convfind bench` compiles for all layers together, before the first find."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from convfind.cli.progress import ProgressBar
from convfind.errors import ConvfindError
from convfind.handle import Handle
from convfind.problem.text import Layer


@dataclass(frozen=True, slots=True)
class Ahead:
    """Programs that were compiled, and the seconds that it took."""

    compiled: int = 0
    elapsed: float = 0.0

    @classmethod
    def of(
        cls,
        handle: Handle,
        layers: Iterable[Layer],
        progress: ProgressBar,
        policy: dict[str, Any],
    ) -> Ahead:
        """Compile what the finds of these layers will compile first."""
        began = time.perf_counter()
        problems = [layer.problem for layer in layers for _ in range(layer.count)]
        try:
            compiled = handle.compile_ahead(problems, on_progress=progress, **policy)
        except (ConvfindError, MemoryError):
            return cls()  # whose layer's fault it is, its find says
        return cls(compiled, time.perf_counter() - began)
