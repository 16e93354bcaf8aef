"""Checks that turn an impossible convolution into a `ProblemError` naming field and range."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from convfind.arguments import python_scalar
from convfind.errors import ProblemError
from convfind.problem.activation import Activation
from convfind.types import AccuracyClass, ConvMode, DataType, Direction, Layout

if TYPE_CHECKING:
    from convfind.problem import ConvProblem

_Enum = TypeVar("_Enum", bound=StrEnum)

#: Sizes must fit the 64-bit signed arithmetic of kernels with room for padding.
LARGEST_SIZE = 2**40
#: So must the offset of any byte of a tensor.
LARGEST_TENSOR = 2**63 - 1
#: More than any tensor has axes.
_MOST_ENTRIES = 8
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

_ENUMS: tuple[tuple[str, type[StrEnum]], ...] = (
    ("direction", Direction),
    ("mode", ConvMode),
    ("dtype", DataType),
    ("y_dtype", DataType),
    ("x_layout", Layout),
    ("w_layout", Layout),
    ("y_layout", Layout),
    ("accuracy", AccuracyClass),
)


def enum_value(field: str, kind: type[_Enum], value: Any) -> _Enum:
    """Return the enum member with this name."""
    if isinstance(value, kind):
        return value
    try:
        return kind(value)
    except (ValueError, TypeError):
        raise ProblemError(field, value, ", ".join(member.value for member in kind)) from None


def integer(field: str, value: object, least: int) -> int:
    """Return an integer of at least ``least``; booleans and fractions are refused."""
    if isinstance(value, bool):
        raise ProblemError(field, value, "a whole number")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ProblemError(field, value, "a whole number") from None
    if not least <= number <= LARGEST_SIZE:
        raise ProblemError(field, number, f"{least} to {LARGEST_SIZE}")
    return number


def _entries(value: Any) -> tuple[Any, ...] | None:
    """The first entries of a sequence, at least as many as a tensor has axes; None for others."""
    if isinstance(value, (tuple, list)):
        return tuple(value[:_MOST_ENTRIES])
    unordered_or_text = (str, bytes, bytearray, Set, Mapping)
    if not isinstance(value, Iterable) or isinstance(value, unordered_or_text):
        return None
    if getattr(value, "ndim", 1) == 0:
        return None  # an array of one number
    return tuple(islice(value, _MOST_ENTRIES))


def shape_of(field: str, value: Any, *, least_batch: int = 1) -> tuple[int, ...]:
    """Return a tensor shape of three to five sizes, all positive except perhaps the first."""
    if getattr(value, "ndim", 1) != 1:
        raise ProblemError(field, type(value).__name__, "the shape of the tensor, not the tensor")
    sizes = _entries(value)
    if sizes is None:
        raise ProblemError(field, value, "a sequence of whole numbers")
    if not 3 <= len(sizes) <= 5:
        raise ProblemError(
            field, sizes, "3 to 5 dimensions: batch (or out channels), channels, 1 to 3 spatial"
        )
    batch, *others = sizes
    return (
        integer(field, batch, least=least_batch),
        *(integer(field, size, least=1) for size in others),
    )


def per_axis(field: str, value: Any, rank: int, *, least: int) -> tuple[int, ...]:
    """Return one number for each axis from a number or a sequence."""
    numbers = _entries(value)
    if numbers is None:
        return (integer(field, value, least),) * rank
    if len(numbers) != rank:
        raise ProblemError(field, numbers, f"one number, or {rank} numbers")
    return tuple(integer(field, number, least) for number in numbers)


def padding_pair(
    value: Any,
    x_spatial: Sequence[int],
    filter_size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return padding before and after each axis from a number, numbers, pairs, "same" or "valid".

    "same" is TensorFlow's rule: the result has ceil(size / stride) positions and an odd pad goes to
    the end.
    """
    rank = len(x_spatial)
    if isinstance(value, str):
        if value == "valid":
            return (0,) * rank, (0,) * rank
        if value != "same":
            raise ProblemError("padding", value, "numbers, (begin, end) pairs, 'same' or 'valid'")
        total = [
            max((x - 1) // s * s + d * (f - 1) + 1 - x, 0)
            for x, f, s, d in zip(x_spatial, filter_size, stride, dilation, strict=True)
        ]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    value = _entries(value) or value
    if isinstance(value, tuple):
        pairs = [pair for entry in value if (pair := _entries(entry)) is not None]
        if pairs and len(pairs) == len(value):
            if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
                raise ProblemError("padding", value, f"{rank} pairs of begin and end")
            begin, end = zip(*pairs, strict=True)
            return (
                per_axis("padding", begin, rank, least=0),
                per_axis("padding", end, rank, least=0),
            )
    both = per_axis("padding", value, rank, least=0)
    return both, both


def scale(field: str, value: object, dtype: DataType, y_dtype: DataType) -> float:
    """Return a scaling factor as the float that kernels get; -0.0 becomes 0.0."""
    allowed = "a finite number"
    value = python_scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ProblemError(field, value, allowed)
    if dtype is not DataType.FLOAT64:
        allowed = "a finite float32 number"
    try:
        number = float(value) + 0.0
    except OverflowError:
        raise ProblemError(field, value, allowed) from None
    if not math.isfinite(number) or (
        dtype is not DataType.FLOAT64 and abs(number) > LARGEST_FLOAT32
    ):
        raise ProblemError(field, value, allowed)
    if y_dtype is DataType.INT32 and not number.is_integer():
        raise ProblemError(field, value, "a whole number where the result is int32")
    return number


def canonicalize(problem: ConvProblem) -> None:
    """Check each field and bring it into canonical form, so that equal problems compare equal."""

    def put(name: str, value: object) -> None:
        object.__setattr__(problem, name, value)

    put("x_shape", shape_of("x", problem.x_shape, least_batch=0))
    put("w_shape", shape_of("w", problem.w_shape))
    rank = problem.spatial_rank
    if len(problem.w_shape) != rank + 2:
        raise ProblemError("w", problem.w_shape, f"as many dimensions as x, which has {rank + 2}")
    put("stride", per_axis("stride", problem.stride, rank, least=1))
    put("dilation", per_axis("dilation", problem.dilation, rank, least=1))
    put("padding", per_axis("padding", problem.padding, rank, least=0))
    put("padding_end", per_axis("padding_end", problem.padding_end, rank, least=0))
    more = problem.output_padding if problem.output_padding != () else 0
    put("output_padding", per_axis("output_padding", more, rank, least=0))
    put("groups", integer("groups", problem.groups, least=1))
    for name, kind in _ENUMS:
        put(name, enum_value(name, kind, getattr(problem, name)))
    for name in ("x_strides", "w_strides", "y_strides"):
        given = getattr(problem, name)
        put(name, None if given is None else per_axis(name, given, rank + 2, least=0))
    for name in ("alpha", "beta"):
        put(name, scale(name, getattr(problem, name), problem.dtype, problem.y_dtype))
    for name in ("deterministic", "allow_tf32", "bias", "add"):
        flag = python_scalar(getattr(problem, name))
        if not isinstance(flag, bool):
            raise ProblemError(name, flag, "True or False")
        put(name, flag)
    if problem.activation is not None:
        put("activation", Activation.of(problem.activation))


def check_channels(problem: ConvProblem) -> None:
    """Check that groups divide the channels and that x and w agree about them."""
    groups = problem.groups
    channels, w_out, w_in = problem.x_shape[1], problem.w_shape[0], problem.w_shape[1]
    if channels % groups:
        raise ProblemError("groups", groups, f"a divisor of the {channels} channels of x")
    if problem.mode is ConvMode.TRANSPOSE:
        if w_out != channels:
            raise ProblemError(
                "w", problem.w_shape, f"a first dimension of {channels}, the channels of x"
            )
        return
    if w_in != channels // groups:
        raise ProblemError(
            "w",
            problem.w_shape,
            f"a second dimension of {channels // groups}: channels of x / groups",
        )
    if w_out % groups:
        raise ProblemError("groups", groups, f"a divisor of the {w_out} output channels of w")


def check_output_padding(problem: ConvProblem) -> None:
    """Check output padding: transposed convolutions only, less than the stride or the dilation.

    Output padding beyond the padding at the end is no data gradient of any convolution.
    """
    if problem.mode is ConvMode.CONVOLUTION:
        if any(problem.output_padding):
            raise ProblemError(
                "output_padding", problem.output_padding, "0 unless mode is transpose"
            )
        return
    axes = zip(
        *(problem.output_padding, problem.stride, problem.dilation, problem.padding_end),
        strict=True,
    )
    for more, step, apart, pad in axes:
        if more >= max(step, min(apart, step + pad)):
            raise ProblemError(
                "output_padding",
                problem.output_padding,
                f"less than the stride {problem.stride}, or than the dilation "
                f"{problem.dilation} and stride plus padding",
            )


def check_layouts(problem: ConvProblem) -> None:
    """Check that every layout has as many dimensions as the tensors."""
    for name in ("x", "w", "y"):
        layout = problem.tensor_layout(name)
        if layout.spatial_rank != problem.spatial_rank:
            legal = " or ".join(
                kind for kind in Layout if kind.spatial_rank == problem.spatial_rank
            )
            field = "layout" if problem.layouts_agree else f"{name}_layout"
            raise ProblemError(field, layout.value, legal)


def check_dtypes(problem: ConvProblem) -> None:
    """Check that the result type is compatible with the type of x and w."""
    legal: tuple[DataType, ...] = (problem.dtype,)
    if problem.dtype is DataType.INT32:
        raise ProblemError("dtype", "int32", "float64, float32, float16, bfloat16 or int8")
    if problem.dtype is DataType.INT8:
        legal = (DataType.INT32, DataType.FLOAT32)
        if problem.mode is ConvMode.TRANSPOSE or problem.direction is not Direction.FORWARD:
            raise ProblemError(
                "dtype", "int8", "a floating type: int8 has neither gradients nor transposes"
            )
    if problem.y_dtype not in legal:
        words = " or ".join(kind.value for kind in legal)
        raise ProblemError(
            "y_dtype", problem.y_dtype.value, f"{words} with dtype {problem.dtype.value}"
        )


def check_epilogue(problem: ConvProblem) -> None:
    """Check that the result is one that bias, z and activation can be applied to."""
    if not problem.is_fused:
        return
    if problem.direction is Direction.BACKWARD_WEIGHTS:
        for name in ("bias", "add", "activation"):
            if value := getattr(problem, name):
                what = "nothing: the gradient of the weights has no epilogue"
                raise ProblemError(name, value, what)
    if problem.activation is not None and not problem.y_dtype.is_float:
        how = f"a floating type where there is an activation, {problem.activation}"
        raise ProblemError("y_dtype", problem.y_dtype.value, how)


def check_output(problem: ConvProblem) -> None:
    """Check that the filter fits the padded input and that no tensor is too large to address."""
    for axis, size in enumerate(problem.x_shape[2:]):
        padded = size + problem.padding[axis] + problem.padding_end[axis]
        reach = problem.dilation[axis] * (problem.w_shape[2 + axis] - 1) + 1
        if problem.mode is ConvMode.CONVOLUTION and reach > padded:
            raise ProblemError(
                "w",
                problem.w_shape,
                f"a filter within the padded input: axis {axis} spans {reach} of {padded}",
            )
        result = problem.y_shape[2 + axis]
        if result < 1:
            raise ProblemError(
                "padding", problem.padding, f"less padding: result axis {axis} has size {result}"
            )
    if max(problem.y_shape) > LARGEST_SIZE:
        raise ProblemError("y", problem.y_shape, f"sizes of at most {LARGEST_SIZE}")


def check_tensors(problem: ConvProblem) -> None:
    """Check that tensors are addressable and that given strides describe disjoint elements."""
    for name in ("x", "w", "y"):
        shape = problem.shape(name)
        field = f"{name}_strides"
        given = getattr(problem, field)
        if given is not None:
            given = canonical_strides(field, given, shape, problem.tensor_layout(name))
            object.__setattr__(problem, field, given)
        elements = math.prod(shape) if given is None else problem.elements(name)
        if elements * problem.tensor_dtype(name).size > LARGEST_TENSOR:
            raise ProblemError(
                name if given is None else field,
                given or shape,
                "a tensor of less than 2**63 bytes",
            )


def canonical_strides(
    field: str, given: tuple[int, ...], shape: tuple[int, ...], layout: Layout
) -> tuple[int, ...] | None:
    """Return strides in canonical form: None if the tensor has no gaps.

    The stride of an axis of size 1 has no effect, so it becomes that of a packed tensor.
    """
    reach = 0
    for step, size in sorted(zip(given, shape, strict=True)):
        if size <= 1:
            continue
        if step <= reach:
            raise ProblemError(field, given, "strides whose elements do not overlap")
        reach += step * (size - 1)
    packed = layout.packed_strides(shape)
    canonical = tuple(
        step if size > 1 else natural
        for step, size, natural in zip(given, shape, packed, strict=True)
    )
    return None if canonical == packed else canonical
