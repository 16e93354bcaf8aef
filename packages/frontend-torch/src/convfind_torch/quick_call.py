"""`QuickCall`: a call of a module's on the host that is decided, with all that it has to equal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from weakref import ref

import torch
from torch.nn.parameter import Parameter

from convfind.errors import ConvfindError
from convfind_torch import native
from convfind_torch.bound_weights import Binding, Version
from convfind_torch.call import Call
from convfind_torch.places import HostRun
from convfind_torch.route import Route, Way

_PLAIN = (torch.Tensor, Parameter)
_BIASES = (torch.Tensor, Parameter, type(None))


@dataclass(frozen=True, slots=True)
class QuickCall:
    """The form of a call without gradients, for later ones that have the same.

    These go straight to the kernels. Weights that are not bound may be others in each call, and
    change meanwhile: kernels read them where they lie.
    """

    route: Route
    way: Way
    run: HostRun
    how: tuple[Any, ...]  # the module's numbers, as it has them
    x: tuple[Any, ...]  # strides and type; weights and bias too
    w: tuple[Any, ...]
    b: tuple[Any, ...] | None
    y: tuple[Sequence[int], Sequence[int]]  # shape and strides
    deterministic: bool
    bound: tuple[ref[torch.Tensor], Version] | None  # weights that were packed
    process: int = field(default_factory=os.getpid)

    @classmethod
    def of(
        cls,
        call: Call,
        route: Route,
        how: tuple[Any, ...],
        y: torch.Tensor,
        binding: Binding | None,
    ) -> Self | None:
        """Return what a computed call has to equal; None where such a call copies something."""
        way, x, w, b = route.way, call.x, call.w, call.b
        if way is None or (call.constant and binding is None):
            return None
        run = way.ready if binding is None else binding.run
        if not isinstance(run, HostRun):
            return None
        layout = way.format
        assert way.problem.reads[:2] == ("x", "w")
        if not (x.is_contiguous(memory_format=layout) and w.is_contiguous(memory_format=layout)):
            return None
        if b is not None and not b.is_contiguous():
            return None
        return cls(
            *(route, way, run, how),
            (x.stride(), x.dtype),
            (w.shape, w.stride(), w.dtype),
            None if b is None else (b.shape, b.stride(), b.dtype),
            (y.shape, y.stride()),
            native.deterministic(),
            None if binding is None else (ref(w), binding.version),
        )

    def result(
        self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, how: tuple[Any, ...]
    ) -> torch.Tensor | None:
        """Compute a call on tensors that `are_plain` of x's shape; None where anything differs."""
        if not (
            self.route.way is self.way
            and self.how == how
            and self.x == (x.stride(), x.dtype)
            and self.w == (w.shape, w.stride(), w.dtype)
            and self.b == (None if b is None else (b.shape, b.stride(), b.dtype))
            and self.deterministic == native.deterministic()
            and self.process == os.getpid()
        ):
            return None
        bound = self.bound
        if bound is not None and not (bound[0]() is w and bound[1].is_of(w)):
            return None
        y = x.new_empty_strided(*self.y)
        tensors = [x] if bound is not None else [x, w]
        if b is not None:
            tensors.append(b)
        try:
            self.run(tensors, y)
        except ConvfindError:
            return None  # the usual way says why, and who computes it from now on
        self.route.calls += 1
        return y


def are_plain(x: Any, w: Any, b: Any) -> bool:
    """Return whether tensors are plain ones of the host, and nobody watches what is done."""
    return (
        type(x) in _PLAIN
        and type(w) in _PLAIN
        and type(b) in _BIASES
        and x.is_cpu
        and w.is_cpu
        and x.layout is w.layout is torch.strided
        and not (x.is_neg() or w.is_neg())
        and (b is None or (b.is_cpu and b.layout is torch.strided and not b.is_neg()))
        and not torch.is_autocast_enabled("cpu")
        and is_quiet()
    )


def is_quiet() -> bool:
    """Return whether nothing around a call changes what it means, or watches it."""
    return (
        torch._C._len_torch_dispatch_stack() == 0
        and not torch._C._are_functorch_transforms_active()
        and torch._C._get_tracing_state() is None
        and torch.autograd.forward_ad._current_level < 0
        and not torch.compiler.is_compiling()
    )
