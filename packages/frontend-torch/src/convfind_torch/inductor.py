"""`compiled_by_inductor`: a graph that PyTorch's own compiler has for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def compiled_by_inductor(
    graph: torch.fx.GraphModule, examples: Sequence[Any], *, cuda_graphs: bool = False
) -> Callable[..., Any]:
    """Compile a graph for inputs like these; from any thread, one at a time.

    Args:
        graph: what Dynamo captured.
        examples: its inputs.
        cuda_graphs: let it replay its kernels as CUDA graphs, as ``mode="reduce-overhead"`` does.

    Raises whatever PyTorch's compiler does, for instance where no C++ compiler is installed.
    """
    from torch._dynamo.convert_frame import compile_lock
    from torch._inductor.compile_fx import compile_fx

    compiler: Any = compile_fx
    changes = {"triton.cudagraphs": True} if cuda_graphs else None
    with compile_lock:
        run: Callable[..., Any] = compiler(graph, list(examples), config_patches=changes)
    return run
