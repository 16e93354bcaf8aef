"""`Call`: a convolution that PyTorch asks for, with its tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import compress
from typing import NamedTuple

import torch

from convfind.problem import ConvProblem
from convfind.types import DataType, Direction
from convfind_torch import native
from convfind_torch.geometry import Geometry, memory_format
from convfind_torch.layer import Layer
from convfind_torch.places import stream_of

_FLOATS = (DataType.FLOAT64, DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16)


class Call(NamedTuple):
    """A convolution, or one of its gradients, and who asks for it."""

    direction: Direction
    x: torch.Tensor
    w: torch.Tensor
    dy: torch.Tensor | None  # None: forward
    b: torch.Tensor | None
    geometry: Geometry
    layer: Layer
    constant: bool = False  # the weights may be packed and kept

    @property
    def form(self) -> Hashable:
        """All that a decision about the call depends on, but for the layer's options."""
        direction, x, w, _, b, geometry, _, constant = self
        return (
            *(direction, x.device, x.dtype, x.shape, x.stride(), w.dtype, w.shape, w.stride()),
            *(None if b is None else (b.dtype, b.shape), geometry, constant),
            *(native.deterministic(), native.allow_tf32(x), stream_of(x)),
        )

    def gradient(self, direction: Direction) -> Call:
        """Return the call of a gradient of this one, as far as decisions depend on it."""
        return self._replace(direction=direction, b=None, constant=False)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Tensors by the names that the problem reads."""
        if self.dy is None:
            return {"x": self.x, "w": self.w, **({} if self.b is None else {"bias": self.b})}
        if self.direction is Direction.BACKWARD_DATA:
            return {"y": self.dy, "w": self.w}
        return {"x": self.x, "y": self.dy}

    @property
    def memory_format(self) -> torch.memory_format:
        """The memory format of the tensors in the problem."""
        return memory_format(self.x, self.w)

    @property
    def obstacle(self) -> str:
        """Why the tensors pose no problem of convfind's; empty where they do."""
        x, w, b = self.x, self.w, self.b
        if str(x.dtype).removeprefix("torch.") not in _FLOATS:
            return f"convfind has no convolutions of {x.dtype} here"
        if w.dtype != x.dtype or (b is not None and b.dtype != x.dtype):
            return "the tensors have different types"
        channels = w.shape[1] * self.geometry.groups if self.geometry.transposed else w.shape[0]
        if b is not None and b.shape != (channels,):
            return f"the bias is not one of {channels} numbers"
        return "the batch is empty" if x.shape[0] == 0 else ""

    @property
    def problem(self) -> ConvProblem:
        """The problem that the tensors pose. Raises `ProblemError`."""
        return self.geometry.problem(
            self.direction,
            tuple(self.x.shape),
            tuple(self.w.shape),
            str(self.x.dtype).removeprefix("torch."),
            channels_last=self.memory_format is not torch.contiguous_format,
            deterministic=native.deterministic(),
            allow_tf32=native.allow_tf32(self.x),
            bias=self.b is not None,
        )

    def pytorch(self) -> torch.Tensor:
        """Compute it by PyTorch's own kernels."""
        if self.dy is None:
            return native.convolution(self.x, self.w, self.b, self.geometry)
        is_data = self.direction is Direction.BACKWARD_DATA
        dx, dw, _ = native.convolution_backward(
            self.dy, self.x, self.w, None, self.geometry, (is_data, not is_data, False)
        )
        gradient = dx if is_data else dw
        assert gradient is not None
        return gradient

    def pytorch_with_gradients(self) -> torch.Tensor:
        """Compute it by PyTorch's own operator, which records its gradients."""
        return torch.convolution(self.x, self.w, self.b, *self.geometry)

    def with_gradients(
        self, compute: Callable[[Call], torch.Tensor], needs: tuple[bool, bool]
    ) -> torch.Tensor:
        """Compute it and the gradients of x and w that are needed; return one of those.

        Nothing of the caller's is touched: tensors are other objects, and hooks do not see them.
        """
        x, w = (
            one.detach().requires_grad_(needed)
            for one, needed in zip((self.x, self.w), needs, strict=True)
        )
        b = None if self.b is None else self.b.detach()
        with torch.autograd.graph.saved_tensors_hooks(_itself, _itself):
            y = compute(self._replace(x=x, w=w, b=b))
            return torch.autograd.grad(y, tuple(compress((x, w), needs)), torch.ones_like(y))[0]

    def __str__(self) -> str:
        shapes = f"{tuple(self.x.shape)} by {tuple(self.w.shape)}"
        return f"{self.direction.short} {shapes}, {self.x.dtype}"


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
