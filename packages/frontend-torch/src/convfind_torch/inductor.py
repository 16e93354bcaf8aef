"""`compiled_by_inductor`: a graph that PyTorch's own compiler has for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def compiled_by_inductor(
    graph: torch.fx.GraphModule, examples: Sequence[Any]
) -> Callable[..., Any]:
    """Compile a graph for inputs like these; from any thread, one at a time.

    Raises whatever PyTorch's compiler does, for instance where no C++ compiler is installed.
    """
    from torch._dynamo.convert_frame import compile_lock
    from torch._inductor.compile_fx import compile_fx

    compiler: Any = compile_fx
    with compile_lock:
        run: Callable[..., Any] = compiler(graph, list(examples))
    return run
