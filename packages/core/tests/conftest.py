"""Any convolution problem, small enough to compute: what hypothesis draws for a `ConvProblem`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from convfind.problem import ConvProblem
from convfind.types import AccuracyClass, ConvMode, DataType, Direction, Layout

_SCALES = st.one_of(st.sampled_from((1.0, 0.0, -2.5)), st.floats(width=32, allow_nan=False)).filter(
    lambda value: abs(value) < 1e38
)


@st.composite
def problems(draw: st.DrawFn) -> ConvProblem:
    """Draw every field; what is rarely used is mostly left at its default."""
    rank = draw(st.integers(1, 3))

    def per_axis(least: int, most: int) -> tuple[int, ...]:
        return draw(st.tuples(*[st.integers(least, most)] * rank))

    def rarely(default: Any, other: st.SearchStrategy[Any]) -> Any:
        return draw(other) if draw(st.integers(0, 3)) == 0 else default

    groups, out, channels = draw(st.tuples(*[st.integers(1, 3)] * 3))
    mode = rarely(ConvMode.CONVOLUTION, st.just(ConvMode.TRANSPOSE))
    stride, dilation, filter_size = per_axis(1, 3), per_axis(1, 2), per_axis(1, 3)
    padding = per_axis(0, 2)
    padding_end = rarely(padding, st.tuples(*[st.integers(0, 2)] * rank))
    output_padding: Any = 0
    spatial = []
    for axis, more in enumerate(per_axis(0, 3)):
        reach = dilation[axis] * (filter_size[axis] - 1) + 1
        pads = padding[axis] + padding_end[axis]
        if mode is ConvMode.TRANSPOSE:
            spatial.append(max(1, 1 + -(-(pads - reach + 1) // stride[axis])) + more)
        else:
            spatial.append(max(1, reach - pads) + more)
    w = (groups * out, channels, *filter_size)
    if mode is ConvMode.TRANSPOSE:
        w = (groups * channels, out, *filter_size)
        output_padding = tuple(draw(st.integers(0, step - 1)) for step in stride)
    layout = draw(st.sampled_from([kind for kind in Layout if kind.spatial_rank == rank]))
    layouts = [kind for kind in Layout if kind.spatial_rank == rank]
    direction = draw(st.sampled_from(Direction))
    is_plain_forward = direction is Direction.FORWARD and mode is ConvMode.CONVOLUTION
    dtypes = [kind for kind in DataType if kind.is_float]
    dtype = draw(st.sampled_from([*dtypes, *([DataType.INT8] if is_plain_forward else [])]))
    y_dtype = dtype.result
    if dtype is DataType.INT8:
        y_dtype = rarely(y_dtype, st.just(DataType.FLOAT32))
    scales = st.integers(-9, 9).map(float) if y_dtype is DataType.INT32 else _SCALES
    problem = ConvProblem.create(
        direction,
        (draw(st.integers(1, 3)), groups * channels, *spatial),
        w,
        stride=stride,
        padding=tuple(zip(padding, padding_end, strict=True)),
        dilation=dilation,
        groups=groups,
        mode=mode,
        output_padding=output_padding,
        dtype=dtype,
        y_dtype=y_dtype,
        layout=layout,
        w_layout=rarely(layout, st.sampled_from(layouts)),
        y_layout=rarely(layout, st.sampled_from(layouts)),
        alpha=rarely(1.0, scales),
        beta=rarely(0.0, scales),
        deterministic=rarely(False, st.just(True)),
        allow_tf32=rarely(False, st.just(True)),
        accuracy=rarely(AccuracyClass.NORMAL, st.sampled_from(AccuracyClass)),
    )
    strides = {
        f"{name}_strides": rarely(None, _strides(problem.shape(name))) for name in ("x", "w", "y")
    }
    return replace(problem, **strides)


@st.composite
def _strides(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Draw strides for the axes in any order in memory, with gaps."""
    strides = [0] * len(shape)
    step = draw(st.integers(1, 2))
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = step
        step = step * shape[axis] + draw(st.integers(0, 2))
    return tuple(strides)


st.register_type_strategy(ConvProblem, problems())
