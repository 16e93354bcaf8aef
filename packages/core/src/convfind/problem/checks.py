"""Checks of a convolution's fields against each other, which raise `ProblemError`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from convfind.errors import ProblemError
from convfind.problem.tensor_spec import are_disjoint
from convfind.problem.values import LARGEST_SIZE
from convfind.types import ConvMode, DataType, Direction, Layout

if TYPE_CHECKING:
    from convfind.problem import ConvProblem

#: The offset of any byte of a tensor fits the 64-bit signed arithmetic of kernels.
LARGEST_TENSOR = 2**63 - 1


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
    if problem.add_last and not problem.add:
        raise ProblemError("add_last", True, "False where no tensor is added: see add")
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
    if not are_disjoint(shape, given):
        raise ProblemError(field, given, "strides whose elements do not overlap")
    packed = layout.packed_strides(shape)
    canonical = tuple(
        step if size > 1 else natural
        for step, size, natural in zip(given, shape, packed, strict=True)
    )
    return None if canonical == packed else canonical
