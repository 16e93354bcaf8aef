"""The problem that tensors pose: shapes, type and layouts are read from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.problem.options import CallOptions, ConvOptions
from convfind.problem.values import enum_value
from convfind.runtime.backend import Device, TensorForm
from convfind.runtime.tensors import DeviceTensor, form_of, to_host_array
from convfind.types import DataType, Layout


@dataclass(frozen=True, slots=True)
class Posed:
    """A forward convolution and the two tensors that it reads, as `Handle.run` takes them."""

    problem: ConvProblem
    x: object
    w: object


def posed(
    device: Device, x: object, w: object, out: object, options: CallOptions | ConvOptions
) -> Posed:
    """Read the problem from its tensors, whose axes are in N, C, spatial order.

    The result is like ``out``, or the z that is added, where there is one.

    Raises:
        ProblemError: no tensor, or the convolution is impossible.
    """
    data, weights = _seen(device, "x", x), _seen(device, "w", w)
    if weights.dtype is not data.dtype:
        raise ProblemError("w", weights.dtype.value, f"dtype {data.dtype.value}, which x has")
    rank = len(data.shape) - 2
    if not 1 <= rank <= 3:
        raise ProblemError("x", data.shape, "one to three spatial dimensions after N and C")
    if len(weights.shape) != len(data.shape):
        raise ProblemError("w", weights.shape, f"{len(data.shape)} dimensions, as many as x has")
    layout = data.layout(Layout.of(rank))
    taken: ConvOptions = {"dtype": data.dtype, "x_layout": layout, "y_layout": layout}
    if data.is_on_device:
        taken["x_strides"] = data.strides
    if weights.is_on_device:
        taken |= {"w_layout": weights.layout(layout), "w_strides": weights.strides}
    else:
        weights = weights.lying_as(layout)
        taken["w_layout"] = layout
    if out is not None:
        result = _seen(device, "out", out)
        taken |= {"y_dtype": result.dtype}
        if len(result.shape) == len(data.shape):
            taken["y_layout"] = result.layout(layout)
            if result.is_on_device:
                taken["y_strides"] = result.strides
    described = cast("ConvOptions", {**taken, **options})
    problem = ConvProblem.forward(data.shape, weights.shape, **described)
    return Posed(problem, data.value, weights.value)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A tensor of a caller; shape and strides, in elements, in N, C, spatial order."""

    value: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DataType
    is_on_device: bool
    shown: Layout | None  # whose order the axes of the value are known to have

    def layout(self, usual: Layout) -> Layout:
        """Return the layout that the strides show; ``usual`` where they fit both."""
        if self.shown is not None and self.shown.channels_last:
            return self.shown
        _, channels, *spatial = zip(self.shape, self.strides, strict=True)
        others = [abs(step) for size, step in spatial if size > 1]
        if channels[0] == 1 or not others:
            return usual
        is_last = 0 < abs(channels[1]) < min(others)
        return Layout.of(usual.spatial_rank, channels_last=is_last)

    def lying_as(self, layout: Layout) -> _Seen:
        """Return an array of the host with its memory in the order of a layout."""
        if not layout.channels_last:
            return self
        array = np.moveaxis(np.ascontiguousarray(np.moveaxis(self.value, 1, -1)), -1, 1)
        return _seen_as(array, form_of(array), self.dtype, is_on_device=False)


def _seen(device: Device, name: str, value: object) -> _Seen:
    form: TensorForm | None
    buffer = value.buffer if isinstance(value, DeviceTensor) else device.adopt(value)
    if buffer is None:
        value = to_host_array(value, name)
        form = form_of(value)
    else:
        form = value.form if isinstance(value, DeviceTensor) else getattr(buffer, "form", None)
    if form is None:
        kind = type(value).__name__
        raise ProblemError(name, kind, "a tensor that knows its shape; `run` takes plain memory")
    dtype = enum_value(name, DataType, form.dtype)
    return _seen_as(value, form, dtype, is_on_device=buffer is not None)


def _seen_as(value: object, form: TensorForm, dtype: DataType, *, is_on_device: bool) -> _Seen:
    shape, strides = form.shape, form.strides
    if form.axes is not None:
        shape, strides = form.axes.to_logical(shape), form.axes.to_logical(strides)
    return _Seen(value, shape, strides, dtype, is_on_device, form.axes)
