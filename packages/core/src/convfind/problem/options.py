"""The keywords of a convolution: `CallOptions` beside tensors, `ConvOptions` beside shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, SupportsFloat, SupportsIndex, TypedDict

import numpy as np

from convfind.arguments import similar
from convfind.errors import ProblemError
from convfind.problem.activation import Activation
from convfind.problem.values import enum_value, padding_pair, per_axis, shape_of
from convfind.types import AccuracyClass, ConvMode, DataType, Layout

Sizes = Iterable[SupportsIndex]
PerAxis = SupportsIndex | Sizes


class CallOptions(TypedDict, total=False):
    """The properties of a convolution beside its tensors; the keywords of `Handle.convolve`.

    A number stands for all axes, a sequence has one for each spatial axis.
    """

    stride: PerAxis  # 1
    padding: (
        SupportsIndex | str | Iterable[SupportsIndex | Sizes]
    )  # 0; "same", "valid", (begin, end)
    dilation: PerAxis  # 1, which is none
    groups: SupportsIndex  # 1
    mode: ConvMode | str  # "conv" or "transpose"
    output_padding: PerAxis  # 0; of transposed convolutions
    y_dtype: DataType | str | None  # of y; None: goes with that of x
    y_layout: Layout | str | None  # None: goes with that of x
    alpha: SupportsFloat  # 1; scales the convolution
    beta: SupportsFloat  # 0, with z 1; scales what is added: the result's previous contents, or z
    activation: Activation | str | None  # None; a function of each result, in the end
    add_last: bool | np.bool_  # False; True: z is added behind the activation
    deterministic: bool | np.bool_  # False; True: the same bits in every run
    allow_tf32: bool | np.bool_  # False; True: products may be rounded to TF32
    accuracy: AccuracyClass | str  # "normal", "strict" or "relaxed"


class ConvOptions(CallOptions, total=False):
    """The keywords of `ConvProblem.forward`, `backward_data` and `backward_weights`."""

    dtype: DataType | str  # "float32"; of x and w
    layout: Layout | str | None  # of all three tensors; None: channels first
    x_layout: Layout | str | None
    w_layout: Layout | str | None
    x_strides: Sizes | None  # in elements, N, C, spatial order; None: no gaps
    w_strides: Sizes | None
    y_strides: Sizes | None
    bias: bool | np.bool_  # False; True: one number for each channel of the result is added
    add: bool | np.bool_  # False; True: a tensor z of its own is added, not the previous contents


_NAMES = tuple(ConvOptions.__annotations__)
_CALL_NAMES = tuple(CallOptions.__annotations__)


def check_names(options: Mapping[str, object]) -> None:
    """Raise `ProblemError` for a keyword that is not in `ConvOptions`, naming similar ones."""
    if not options.keys() <= ConvOptions.__annotations__.keys():
        name = min(options.keys() - set(_NAMES))
        raise ProblemError("keyword", name, ", ".join(similar(name, _NAMES) or _NAMES))


def check_call_names(options: Mapping[str, object], policy_fields: Set[str]) -> None:
    """Raise `ProblemError` for a keyword that is none of `CallOptions`, saying what takes it."""
    if options.keys() <= CallOptions.__annotations__.keys():
        return
    name = min(options.keys() - set(_CALL_NAMES))
    if name in _NAMES:
        how = "no such keyword: it is taken from the tensors"
    elif name in policy_fields:
        how = f"policy=handle.policy({name}=...)"
    else:
        how = ", ".join(similar(name, _CALL_NAMES) or _CALL_NAMES)
    raise ProblemError("keyword", name, how)


def fields_of(x: Sizes, w: Sizes, options: ConvOptions) -> dict[str, Any]:
    """Return the fields of a convolution, but for its direction, from shapes and keywords.

    Raises:
        ProblemError: names the keyword and what is allowed.
    """
    check_names(options)
    fields: dict[str, Any] = {**options}
    x_shape, w_shape = shape_of("x", x, least_batch=0), shape_of("w", w)
    rank = len(x_shape) - 2
    if len(w_shape) != len(x_shape):
        raise ProblemError("w", w_shape, f"as many dimensions as x, which has {len(x_shape)}")
    stride = per_axis("stride", fields.pop("stride", 1), rank, least=1)
    dilation = per_axis("dilation", fields.pop("dilation", 1), rank, least=1)
    padding = fields.pop("padding", 0)
    if isinstance(padding, str) and padding == "same" and fields.get("mode") == "transpose":
        raise ProblemError("padding", padding, "numbers or pairs where mode is transpose")
    begin, end = padding_pair(padding, x_shape[2:], w_shape[2:], stride, dilation)
    dtype = enum_value("dtype", DataType, fields.pop("dtype", DataType.FLOAT32))
    if fields.get("y_dtype") is None:
        fields["y_dtype"] = dtype.result
    if fields.get("add") and fields.get("beta") is None:
        fields["beta"] = 1.0
    layout = fields.pop("layout", None)
    layout = Layout.of(rank) if layout is None else enum_value("layout", Layout, layout)
    for name in ("x_layout", "w_layout", "y_layout"):
        if fields.get(name) is None:
            fields[name] = layout
    fields.update(
        x_shape=x_shape,
        w_shape=w_shape,
        stride=stride,
        padding=begin,
        padding_end=end,
        dilation=dilation,
        dtype=dtype,
    )
    return fields
