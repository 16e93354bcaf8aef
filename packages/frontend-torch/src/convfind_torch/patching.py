"""`patched`: every convolution of the process by convfind, as long as a block runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Unpack

import torch

from convfind.policy import FindKeywords, Mode
from convfind.types import Direction
from convfind_torch import native
from convfind_torch.autograd import gradients
from convfind_torch.call import Call
from convfind_torch.engine import engine
from convfind_torch.geometry import Geometry
from convfind_torch.layer import Layer, anonymous
from convfind_torch.options import Options
from convfind_torch.quick_call import Needs


@contextmanager
def patched(
    mode: Mode | None = None, *, keep_faster: bool = True, **find: Unpack[FindKeywords]
) -> Iterator[None]:
    """Override ``aten::convolution`` and ``aten::convolution_backward`` in the whole process.

    Every library and every thread is affected until the block ends, however it ends. Compilers that
    do not call the operators are not: ``torch.compile`` has the backend ``convfind``. Blocks cannot
    be nested.

    Args:
        mode: how to find, as `convfind.Handle.find` takes it; None for the environment's mode.
        keep_faster: time PyTorch's own convolution once for each problem, and keep it where it is
            faster.
        **find: what else ``Handle.find`` takes, such as ``time_budget``, in seconds.

    Raises:
        SettingsError: an unknown keyword or an illegal value; names the legal ones.
        RuntimeError: inside of another such block.
    """
    layer = anonymous("patched", Options.of(mode, keep_faster=keep_faster, **find))
    keys = ["CPU", *(["CUDA"] if torch.cuda.is_available() else [])]
    library = torch.library.Library("aten", "IMPL")
    try:
        for key in keys:
            kernel, _ = native.backward_kernel(key.lower())
            _override(library, "convolution", _forward(layer), key)
            if kernel is not None:
                _override(library, "convolution_backward", _backward(layer), key)
        yield
    finally:
        library._destroy()


def _override(
    library: torch.library.Library, name: str, function: Callable[..., Any], key: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a kernel already
        library.impl(name, function, key)


def _forward(layer: Layer) -> Callable[..., torch.Tensor]:
    def convolution(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, *arguments: Any
    ) -> torch.Tensor:
        geometry = Geometry.of(x.dim() - 2, *arguments)
        if not _is_plain(x, w):
            return native.convolution(x, w, b, geometry)
        return engine().compute(Call(Direction.FORWARD, x, w, None, b, geometry, layer))

    return convolution


def _backward(layer: Layer) -> Callable[..., native.Gradients]:
    def convolution_backward(
        dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, bias_sizes: Any, *arguments: Any
    ) -> native.Gradients:
        *given, mask = arguments
        geometry = Geometry.of(x.dim() - 2, *given)
        if not _is_plain(x, w):
            return native.convolution_backward(dy, x, w, bias_sizes, geometry, tuple(mask))
        return gradients(dy, x, w, geometry, layer, Needs(*mask))

    return convolution_backward


def _is_plain(x: torch.Tensor, w: torch.Tensor) -> bool:
    same = x.device == w.device and x.dim() == w.dim()
    return same and not any(one.layout is not torch.strided or one.is_neg() for one in (x, w))
