"""PyTorch on CPUs with a whole network, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import torch

from peers.timing import Contestant, host_timer


def contestants(module: Any, x: Any, wanted: Collection[str]) -> Iterator[Contestant]:
    """Return PyTorch, and what Inductor makes, if they are wanted."""
    if "torch" in wanted:
        yield Contestant("PyTorch", True, host_timer(_eager(module, x)))
    if "torch-compile" in wanted:
        yield Contestant("torch.compile", True, host_timer(_frozen(module, x)))


def result_of(module: Any, x: Any) -> np.ndarray[Any, Any]:
    """Return what the module makes of an input."""
    with torch.inference_mode():
        result: np.ndarray[Any, Any] = module(x).numpy()
    return result


def _eager(module: Any, x: Any) -> Callable[[], object]:
    """Return PyTorch channels-last with batch norms folded: its best mode without a compiler."""
    from torch.fx.experimental.optimization import fuse

    fused: Any = fuse(module.eval())
    fused = fused.to(memory_format=torch.channels_last)
    last = x.to(memory_format=torch.channels_last)

    def run() -> object:
        with torch.inference_mode():
            return fused(last)

    return run


def _frozen(module: Any, x: Any) -> Callable[[], object]:
    """Return what Inductor makes with constant weights."""
    import torch._inductor.config as inductor

    inductor.freezing = True
    compiled: Any = torch.compile(module.eval())

    def run() -> object:
        with torch.no_grad():
            return compiled(x)

    return run
