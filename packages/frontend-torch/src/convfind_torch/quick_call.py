"""`QuickCall`, `QuickStep`: a module's calls that are decided, for others of the same form."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from weakref import ref

import torch
from torch.nn.parameter import Parameter

from convfind.errors import ConvfindError
from convfind.types import Direction
from convfind_torch import native
from convfind_torch.bound_weights import BoundWeights, Version
from convfind_torch.call import Call
from convfind_torch.geometry import Geometry
from convfind_torch.place import AddressedRun, Run
from convfind_torch.places import stream_of
from convfind_torch.route import Route, Way

_PLAIN = (torch.Tensor, Parameter)
_BIASES = (torch.Tensor, Parameter, type(None))


@dataclass(frozen=True, slots=True)
class ReadyWay:
    """A route's kernels, ready for the addresses of dense tensors, and the form of the result."""

    route: Route
    way: Way
    run: AddressedRun[Any]
    y: tuple[Sequence[int], Sequence[int]]  # shape and strides

    @classmethod
    def of(cls, route: Route, run: Run | None, tensors: Mapping[str, torch.Tensor]) -> Self | None:
        """Return a route's kernels; None where a call of these tensors would copy something.

        Args:
            route: a decision.
            run: the kernels with weights bound; None for the route's own.
            tensors: by the names that the problem reads, without such as are made dense.
        """
        way = route.way
        if way is None or not way.place.is_usable:
            return None
        run = way.ready if run is None else run
        if not isinstance(run, AddressedRun):
            return None
        for name, tensor in tensors.items():
            layout = torch.contiguous_format if name == "bias" else way.format
            if not tensor.is_contiguous(memory_format=layout):
                return None
        y = torch.empty(way.shape, device="meta", memory_format=way.format)
        return cls(route, way, run, (way.shape, y.stride()))

    def result(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Compute from dense tensors; None where the usual way has to say why that fails."""
        if self.route.way is not self.way:
            return None
        y = tensors[0].new_empty_strided(*self.y)
        try:
            self.run(tensors, y)
        except ConvfindError:
            return None
        self.route.calls += 1
        return y

    def gradient(self, dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor | None:
        """Compute the gradient of x or w, from y's in any form; None as for `result`."""
        dense = dy.contiguous(memory_format=self.way.format)
        is_of_x = self.way.problem.direction is Direction.BACKWARD_DATA
        return self.result((dense, w) if is_of_x else (x, dense))


@dataclass(frozen=True, slots=True)
class QuickCall:
    """The kernels of a call without gradients, for later ones of the same form.

    Weights that are not bound may be others in each call, and change meanwhile: kernels read them
    where they lie.
    """

    kernels: ReadyWay
    bound: tuple[ref[torch.Tensor], Version] | None  # weights that were packed

    @classmethod
    def of(cls, call: Call, route: Route, weights: BoundWeights) -> Self | None:
        """Return the kernels of a computed call; None where such a call copies something."""
        if route.way is None:
            return None
        binding = weights.binding(route.way, call.w) if call.constant else None
        if call.constant and binding is None:
            return None
        run = None if binding is None else binding.run
        kernels = ReadyWay.of(route, run, call.tensors)
        if kernels is None:
            return None
        assert kernels.way.problem.reads[:2] == ("x", "w")
        return cls(kernels, None if binding is None else (ref(call.w), binding.version))

    def result(
        self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Compute a call of the same form; None where its weights are not those bound."""
        bound = self.bound
        if bound is None:
            return self.kernels.result((x, w) if b is None else (x, w, b))
        if not (bound[0]() is w and bound[1].is_of(w)):
            return None
        if self.kernels.way.place.is_capturing:
            return None  # a graph of the caller's reads weights in every replay
        return self.kernels.result((x,) if b is None else (x, b))


class Needs(NamedTuple):
    """The tensors of a call whose gradients are wanted."""

    x: bool
    w: bool
    b: bool

    @classmethod
    def of(cls, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Self:
        """Return what tensors say of themselves, wherever gradients are recorded at all."""
        return cls(x.requires_grad, w.requires_grad, b is not None and b.requires_grad)


@dataclass(frozen=True, slots=True)
class QuickStep:
    """The kernels of a call with gradients, and of these, for later ones of the same form."""

    form: Hashable  # of a call without a bias, as a backward pass sees it
    layout: torch.memory_format
    y: ReadyWay | None  # None: `Engine` computes it
    dx: ReadyWay | None
    dw: ReadyWay | None
    #: Routes to count, where PyTorch's own operator computes the call and records its gradients.
    left: tuple[Route, ...]
    #: The gradients' routes, by places in `Needs`, where PyTorch computes all of them in one call.
    gradients_left: tuple[tuple[int, Route], ...]

    @classmethod
    def of(cls, call: Call, needs: Needs, known: Mapping[Hashable, Route]) -> Self | None:
        """Return a forward call's step; None until it and its gradients are decided."""
        forward = known.get(call.form)
        if forward is None:
            return None
        gradients: dict[int, Route] = {}
        for place, direction in enumerate(_GRADIENTS):
            if needs[place]:
                route = known.get(call.gradient(direction).form)
                if route is None:
                    return None
                gradients[place] = route
        x, w, layout = call.x, call.w, call.memory_format
        is_dense = all(one.is_contiguous(memory_format=layout) for one in (x, w))
        dx, dw = (
            ReadyWay.of(gradients[place], None, {}) if place in gradients and is_dense else None
            for place in range(len(_GRADIENTS))
        )
        ours = any(route.is_ours for route in gradients.values())
        return cls(
            form_of(x, w, None, call.geometry),
            layout,
            ReadyWay.of(forward, None, call.tensors),
            *(dx, dw),
            (),
            () if ours else tuple(gradients.items()),
        )

    def is_of(self, dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, how: Geometry) -> bool:
        """Return whether a backward pass that `is_quiet` has tensors of this step's form."""
        return are_plain_of_gradient(dy, x, w) and self.form == form_of(x, w, None, how)

    def gradients(
        self, dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, needs: Needs, how: Geometry
    ) -> native.Gradients:
        """Compute the gradients of tensors that `is_of` takes, as far as they are at hand."""
        if self.gradients_left:
            for place, route in self.gradients_left:
                route.calls += needs[place]
            sizes = [dy.shape[1]] if needs.b else None
            return native.convolution_backward(dy, x, w, sizes, how, (*needs,))
        dx = dw = None
        dense = dy.contiguous(memory_format=self.layout)
        if needs.x and self.dx is not None:
            dx = self.dx.result((dense, w))
        if needs.w and self.dw is not None:
            dw = self.dw.result((x, dense))
        return dx, dw, None


#: In the order of `Needs`.
_GRADIENTS = (Direction.BACKWARD_DATA, Direction.BACKWARD_WEIGHTS)


def form_of(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, how: tuple[Any, ...]
) -> Hashable:
    """Return all that kernels which are at hand depend on, for tensors that `are_plain`.

    Args:
        x: the image.
        w: the weights.
        b: the bias, or None.
        how: a `Geometry`, or its items.
    """
    if x.is_cpu and w.is_cpu and (b is None or b.is_cpu):  # one device, TF32 and streams nowhere
        return (
            *(x.shape, x.stride(), x.dtype, w.shape, w.stride(), w.dtype),
            None if b is None else (b.shape, b.stride(), b.dtype),
            *(how, native.deterministic(), os.getpid()),
        )
    return (
        *(x.shape, x.stride(), x.dtype, x.device, w.shape, w.stride(), w.dtype, w.device),
        None if b is None else (b.shape, b.stride(), b.dtype, b.device),
        how,
        *(native.deterministic(), native.allow_tf32(x), stream_of(x), os.getpid()),
    )


def are_plain(x: Any, w: Any, b: Any) -> bool:
    """Return whether tensors are plain ones in memory, and nobody watches what is done."""
    return (
        is_quiet()
        and type(x) in _PLAIN
        and type(w) in _PLAIN
        and type(b) in _BIASES
        and x.layout is w.layout is torch.strided
        and not (x.is_neg() or w.is_neg())
        and (b is None or (b.layout is torch.strided and not b.is_neg()))
    )


def are_plain_of_gradient(dy: Any, x: Any, w: Any) -> bool:
    """Return whether tensors of a gradient are plain ones in memory, of one type and device."""
    return (
        type(dy) is torch.Tensor
        and type(x) in _PLAIN
        and type(w) in _PLAIN
        and dy.layout is x.layout is w.layout is torch.strided
        and dy.dtype is x.dtype
        and dy.device == x.device
        and not (dy.is_neg() or x.is_neg() or w.is_neg())
    )


def is_quiet() -> bool:
    """Return whether nothing around a call changes what it means, or watches it."""
    return (
        not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0
        and not torch._C._are_functorch_transforms_active()
        and torch._C._get_tracing_state() is None
        and torch.autograd.forward_ad._current_level < 0
    )
