"""`Geometry`: what ``aten::convolution`` is told beside its tensors, and the problem it poses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from convfind.problem import ConvProblem
from convfind.types import Direction, Layout


class Geometry(NamedTuple):
    """The arguments of ``aten::convolution`` after its tensors, in its order."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int

    @classmethod
    def of(
        cls,
        rank: int,
        stride: int | Sequence[int],
        padding: int | Sequence[int],
        dilation: int | Sequence[int],
        transposed: bool,
        output_padding: int | Sequence[int],
        groups: int,
    ) -> Geometry:
        """Return the geometry in ``rank`` spatial dimensions; one number stands for all axes."""
        return cls(
            per_axis(stride, rank),
            per_axis(padding, rank),
            per_axis(dilation, rank),
            transposed,
            per_axis(output_padding, rank),
            groups,
        )

    def problem(
        self,
        direction: Direction,
        x: tuple[int, ...],
        w: tuple[int, ...],
        dtype: str,
        *,
        channels_last: bool,
        deterministic: bool,
        allow_tf32: bool,
        bias: bool,
    ) -> ConvProblem:
        """Return the problem of tensors of these shapes. Raises `ProblemError`."""
        options: dict[str, Any] = {"bias": True} if bias else {}
        if self.transposed:
            options |= {"mode": "transpose", "output_padding": self.output_padding}
        return ConvProblem.create(
            direction,
            x,
            w,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            dtype=dtype,
            layout=Layout.of(len(x) - 2, channels_last=channels_last),
            deterministic=deterministic,
            allow_tf32=allow_tf32,
            **options,
        )


def per_axis(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return a number for each axis; one stands for all."""
    if type(value) is tuple and len(value) == rank:
        return value
    if isinstance(value, int):
        return (value,) * rank
    values = tuple(value)
    return values * rank if len(values) == 1 else values


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Return whether strides show a tensor to be channels last, as PyTorch reads them.

    Where both orders have the same strides, a tensor is channels first.
    """
    shape, strides = tensor.shape, tensor.stride()
    if len(shape) not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[axis] == 0 or strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis] * max(shape[axis], 1)
    return True


def memory_format(x: torch.Tensor, w: torch.Tensor) -> torch.memory_format:
    """Return the memory format of a result and of gradients: channels last where x or w is."""
    if not (is_channels_last(x) or is_channels_last(w)):
        return torch.contiguous_format
    return torch.channels_last if x.dim() == 4 else torch.channels_last_3d


def result_shape(x: Sequence[Any], w: Sequence[Any], geometry: Geometry) -> list[Any]:
    """Return the shape of y; sizes may be symbolic."""
    channels = w[1] * geometry.groups if geometry.transposed else w[0]
    shape = [x[0], channels]
    for axis, size in enumerate(x[2:]):
        reach = geometry.dilation[axis] * (w[2 + axis] - 1) + 1
        pad, step = 2 * geometry.padding[axis], geometry.stride[axis]
        if geometry.transposed:
            shape.append((size - 1) * step - pad + reach + geometry.output_padding[axis])
        else:
            shape.append((size + pad - reach) // step + 1)
    return shape
