"""`ConvProblem`: derived sizes, one spelling for equal problems, directions, transposes."""

from __future__ import annotations

import math
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from convfind.checking.reference import reference_convolution
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.types import ConvMode, DataType, Direction, Layout


def resnet_layer(**options: Any) -> ConvProblem:
    return ConvProblem.forward((16, 64, 56, 56), (64, 64, 3, 3), **{"padding": 1, **options})


def test_forward_fills_in_defaults() -> None:
    problem = resnet_layer()
    assert problem.direction is Direction.FORWARD
    assert problem.y_shape == (16, 64, 56, 56)
    assert problem.stride == problem.padding == problem.padding_end == problem.dilation == (1, 1)
    assert problem.output_padding == (0, 0)
    assert (problem.dtype, problem.y_dtype) == (DataType.FLOAT32, DataType.FLOAT32)
    assert problem.layout is problem.w_layout is problem.y_layout is Layout.NCHW
    assert problem.is_packed
    assert problem.has_default_scaling
    assert problem.layouts_agree
    assert not problem.is_pointwise


@pytest.mark.parametrize(
    ("x", "w", "options", "y"),
    [
        ((2, 3, 10), (4, 3, 3), {}, (2, 4, 8)),
        ((2, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 3)}, (2, 4, 4, 3)),
        ((1, 3, 7, 7), (4, 3, 3, 3), {"dilation": 3}, (1, 4, 1, 1)),
        ((1, 3, 7, 7), (4, 3, 3, 3), {"padding": ((0, 1), (2, 0))}, (1, 4, 6, 7)),
        ((1, 6, 5, 5, 5), (6, 2, 1, 2, 3), {"groups": 3}, (1, 6, 5, 4, 3)),
        ((1, 3, 7, 8), (4, 3, 3, 3), {"padding": "same", "stride": 2}, (1, 4, 4, 4)),
        ((1, 3, 7, 8), (4, 3, 4, 3), {"padding": "same"}, (1, 4, 7, 8)),
        ((1, 3, 7, 8), (4, 3, 3, 3), {"padding": "valid"}, (1, 4, 5, 6)),
        ((1, 4, 5, 5), (4, 3, 3, 3), {"mode": "transpose", "stride": 2}, (1, 3, 11, 11)),
        (
            (1, 4, 5, 5),
            (4, 3, 3, 3),
            {"mode": "transpose", "stride": 2, "padding": 1, "output_padding": (1, 0)},
            (1, 3, 10, 9),
        ),
        ((1, 4, 5), (4, 3, 3), {"mode": "transpose", "groups": 2}, (1, 6, 7)),
    ],
)
def test_result_shape(
    x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], y: tuple[int, ...]
) -> None:
    assert ConvProblem.forward(x, w, **options).y_shape == y


def test_same_padding_puts_the_odd_one_at_the_end() -> None:
    problem = ConvProblem.forward((1, 3, 8, 8), (4, 3, 4, 3), padding="same", stride=(1, 2))
    assert (problem.padding, problem.padding_end) == ((1, 0), (2, 1))


@pytest.mark.parametrize(
    "padding",
    [
        np.array([[1, 2], [0, 1]]),
        [np.array([1, 2]), (0, 1)],
        ((np.int64(1), 2), [0, np.array(1)]),
        zip((1, 0), (2, 1), strict=True),
    ],
    ids=["array", "arrays", "scalars", "iterator"],
)
def test_pairs_of_padding_may_be_any_sequences(padding: Any) -> None:
    problem = ConvProblem.forward((1, 3, 8, 8), (4, 3, 3, 3), padding=padding)
    assert (problem.padding, problem.padding_end) == ((1, 0), (2, 1))


def test_arrays_of_one_number_are_numbers() -> None:
    scalars = ConvProblem.forward(
        (2, 4, 9, 9),
        (8, 2, 3, 3),
        stride=np.array(2),
        padding=np.array(1),
        groups=np.array(2),
        alpha=np.array(2.0),
        deterministic=np.array(True),  # type: ignore[arg-type]
    )
    assert scalars == ConvProblem.forward(
        (2, 4, 9, 9), (8, 2, 3, 3), stride=2, padding=1, groups=2, alpha=2.0, deterministic=True
    )


def test_sizes_may_be_numpy_numbers_lists_and_arrays() -> None:
    exotic = ConvProblem.forward(
        np.array([16, 64, 56, 56]),
        [64, 64, 3, 3],
        padding=[np.int64(1), 1],
        groups=np.int32(1),
        alpha=np.float32(1),
        beta=-0.0,
        deterministic=np.False_,
    )
    assert exotic == resnet_layer()
    assert repr(exotic) == repr(resnet_layer())


def test_words_and_members_describe_the_same_problem() -> None:
    words = ConvProblem.create(
        "backward-data", (1, 2, 5), (2, 2, 3), dtype="float16", layout="NWC", accuracy="strict"
    )
    assert words.direction is Direction.BACKWARD_DATA
    assert words.dtype is words.y_dtype is DataType.FLOAT16
    assert words.x_layout is words.w_layout is words.y_layout is Layout.NWC


def test_int8_gives_int32_unless_asked() -> None:
    assert resnet_layer(dtype="int8").y_dtype is DataType.INT32
    assert resnet_layer(dtype="int8", y_dtype="float32").y_dtype is DataType.FLOAT32


def test_packed_strides_are_the_same_as_none() -> None:
    packed = resnet_layer(x_strides=(64 * 56 * 56, 56 * 56, 56, 1))
    assert packed == resnet_layer()
    assert packed.is_packed
    nhwc = resnet_layer(layout="NHWC", y_strides=(64 * 56 * 56, 1, 56 * 64, 64))
    assert nhwc == resnet_layer(layout="NHWC")


def test_strides_of_axes_of_size_one_do_not_matter() -> None:
    shapes = (1, 4, 6, 6), (4, 4, 1, 1)
    plain = ConvProblem.forward(*shapes)
    assert ConvProblem.forward(*shapes, x_strides=(7, 36, 6, 1), w_strides=(4, 1, 0, 99)) == plain
    gaps = ConvProblem.forward(*shapes, x_strides=(0, 50, 8, 1))
    assert gaps == ConvProblem.forward(*shapes, x_strides=(1000, 50, 8, 1))
    assert not gaps.is_packed


def test_elements_and_bytes_count_gaps() -> None:
    problem = ConvProblem.forward((2, 3, 4), (5, 3, 1), dtype="float16", x_strides=(40, 10, 2))
    assert problem.strides("x") == (40, 10, 2)
    assert problem.elements("x") == 1 + 40 + 20 + 6
    assert problem.nbytes("x") == 2 * problem.elements("x")
    assert problem.strides("w") == (3, 1, 1)
    assert problem.traffic == problem.nbytes("x") + 2 * 15 + 2 * 2 * 5 * 4


def test_flops_of_a_known_layer() -> None:
    assert resnet_layer().flops == 2 * 16 * 64 * 56 * 56 * 64 * 9
    assert resnet_layer().with_direction("backward-weights").flops == resnet_layer().flops


@pytest.mark.parametrize(
    ("direction", "reduction"),
    [("forward", 2 * 9), ("backward-data", 4 * 9), ("backward-weights", 3 * 6 * 6)],
)
def test_reduction_is_the_length_of_a_sum(direction: str, reduction: int) -> None:
    problem = ConvProblem.create(direction, (3, 4, 8, 8), (8, 2, 3, 3), groups=2)
    assert problem.reduction == reduction


def test_dtypes_of_the_tensors() -> None:
    problem = resnet_layer(dtype="int8")
    assert [problem.tensor_dtype(name).value for name in "xwy"] == ["int8", "int8", "int32"]


def test_pointwise_is_a_plain_gemm() -> None:
    assert ConvProblem.forward((1, 8, 5, 5), (4, 8, 1, 1), dilation=2).is_pointwise
    for options in ({"stride": 2}, {"padding": 1}, {"padding": ((0, 1), (0, 0))}):
        assert not ConvProblem.forward((1, 8, 5, 5), (4, 8, 1, 1), **options).is_pointwise


def test_transposed_is_the_data_gradient_of_the_plain_one() -> None:
    problem = ConvProblem.forward(
        (2, 4, 5, 5), (4, 3, 3, 3), mode="transpose", stride=2, output_padding=1, y_layout="NHWC"
    )
    plain = problem.plain()
    assert plain.mode is ConvMode.CONVOLUTION
    assert plain.direction is problem.plain_direction is Direction.BACKWARD_DATA
    assert (plain.x_shape, plain.y_shape) == (problem.y_shape, problem.x_shape)
    assert (plain.x_layout, plain.y_layout) == (Layout.NHWC, Layout.NCHW)
    assert [problem.plain_name(name) for name in "xwy"] == ["y", "w", "x"]
    directions = [problem.with_direction(direction).plain().direction for direction in Direction]
    assert directions == [
        Direction.BACKWARD_DATA,
        Direction.FORWARD,
        Direction.BACKWARD_WEIGHTS,
    ]


def test_with_batch_changes_only_the_batch() -> None:
    problem = resnet_layer(x_strides=(64 * 56 * 57, 56 * 57, 57, 1))
    assert problem.with_batch(3) == replace(problem, x_shape=(3, 64, 56, 56), x_strides=None)
    with pytest.raises(ProblemError, match=r"batch: -1 .*0 to"):
        problem.with_batch(-1)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_batch_may_be_empty_and_nothing_else(layout: str) -> None:
    problem = ConvProblem.forward((0, 6, 9, 8), (4, 6, 3, 3), layout=layout)
    assert problem.is_empty
    assert problem.y_shape == (0, 4, 7, 6)
    assert [problem.nbytes(name) for name in "xwy"] == [0, 4 * 216, 0]
    assert ConvProblem.from_key(problem.key) == problem
    gaps = replace(problem, x_strides=(1000, 100, 10, 1))
    assert gaps.elements("x") == 0
    assert not problem.with_batch(1).is_empty
    with pytest.raises(ProblemError, match=r"x: 0 .*1 to"):
        ConvProblem.forward((2, 0, 9, 8), (4, 0, 3, 3))
    with pytest.raises(ProblemError, match=r"w: 0 .*1 to"):
        ConvProblem.forward((2, 6, 9, 8), (0, 6, 3, 3))


def test_the_constructor_checks_like_the_factories() -> None:
    with pytest.raises(ProblemError, match="stride"):
        replace(resnet_layer(), stride=(0, 1))
    with pytest.raises(ProblemError, match="padding"):
        replace(resnet_layer(), padding=(1, -1))


def test_key_is_the_network_config_and_the_text() -> None:
    problem = resnet_layer()
    assert str(problem) == problem.key
    assert problem.key == "fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32"


@given(...)
def test_a_problem_is_a_value(problem: ConvProblem) -> None:
    twin = replace(problem)
    assert twin == problem
    assert hash(twin) == hash(problem)
    assert problem in {twin}
    for name in ("x_shape", "alpha", "y_shape", "new"):
        with pytest.raises(FrozenInstanceError):
            setattr(problem, name, 1)


@given(...)
def test_a_problem_survives_pickling(problem: ConvProblem) -> None:
    _ = problem.key, problem.macs, problem.plain()
    copy = pickle.loads(pickle.dumps(problem))
    assert copy == problem
    assert copy.y_shape == problem.y_shape
    assert copy.key == problem.key


@given(...)
def test_fields_are_plain_values(problem: ConvProblem) -> None:
    for field in fields(problem):
        value = getattr(problem, field.name)
        parts = value if isinstance(value, tuple) else (value,)
        assert all(
            part is None or type(part).__module__ in ("builtins", "convfind.types")
            for part in parts
        )


@given(...)
def test_directions_share_everything_else(problem: ConvProblem) -> None:
    if problem.dtype is DataType.INT8:
        with pytest.raises(ProblemError, match="dtype"):
            problem.with_direction(Direction.BACKWARD_DATA)
        return
    for direction in Direction:
        other = problem.with_direction(direction)
        assert other.direction is direction
        assert other.with_direction(problem.direction) == problem
        assert (other.y_shape, other.flops) == (problem.y_shape, problem.flops)
        assert set(direction.reads) | {direction.writes} == {"x", "w", "y"}


@given(...)
def test_plain_problem_computes_the_same(problem: ConvProblem) -> None:
    plain = problem.plain()
    assert plain.mode is ConvMode.CONVOLUTION
    assert plain.plain() is plain
    assert (plain.flops, plain.reduction, plain.traffic) == (
        problem.flops,
        problem.reduction,
        problem.traffic,
    )
    names = {name: problem.plain_name(name) for name in "xwy"}
    for name, plain_name in names.items():
        assert plain.shape(plain_name) == problem.shape(name)
        assert plain.strides(plain_name) == problem.strides(name)
        assert plain.tensor_layout(plain_name) is problem.tensor_layout(name)
        assert plain.tensor_dtype(plain_name) is problem.tensor_dtype(name)
    assert {names[name] for name in problem.direction.reads} == set(plain.direction.reads)
    assert names[problem.direction.writes] == plain.direction.writes


@given(...)
def test_layouts_reorder_without_loss(problem: ConvProblem) -> None:
    for name in "xwy":
        layout, shape = problem.tensor_layout(name), problem.shape(name)
        assert layout.to_logical(layout.to_memory(shape)) == shape
        steps = layout.to_memory(layout.packed_strides(shape))
        assert steps[-1] == 1
        assert list(steps) == sorted(steps, reverse=True)
        assert steps[0] * shape[0] == math.prod(shape)


@pytest.mark.parametrize(
    ("size", "taps", "options", "expected"),
    [
        (3, 3, {"padding": 1}, False),
        (1, 3, {"padding": 1}, True),
        (4, 3, {"padding": 3}, False),
        (3, 3, {"padding": 2, "dilation": 2}, False),
        (2, 3, {"padding": 2, "dilation": 2}, True),
        (2, 9, {"padding": 4}, True),
        (5, 9, {"padding": 4}, False),
        (2, 2, {"padding": 1, "stride": 2}, False),
        (1, 2, {"padding": 1, "stride": 2}, True),  # the first tap is past x
        (7, 3, {"stride": 9}, False),
    ],
)
def test_taps_that_meet_padding_only(
    size: int, taps: int, options: dict[str, Any], expected: bool
) -> None:
    x, w = np.ones((1, 1, size)), np.ones((1, 1, taps))
    problem = ConvProblem.backward_weights(x.shape, w.shape, **options)
    gradient = reference_convolution(problem, x, np.ones(problem.y_shape))
    assert bool((gradient == 0).any()) is expected
    assert problem.has_idle_taps is expected
