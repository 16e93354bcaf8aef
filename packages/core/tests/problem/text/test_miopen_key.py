"""MIOpen's find-db keys: real ones in and out, and what they cannot say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.problem.text import format_miopen_key, parse_key, parse_miopen_key
from convfind.types import AccuracyClass, DataType, Direction, Layout

ALL_SAYABLE: dict[str, Any] = {
    "alpha": 1.0,
    "beta": 0.0,
    "deterministic": False,
    "allow_tf32": False,
    "accuracy": AccuracyClass.NORMAL,
    "x_strides": None,
    "w_strides": None,
    "y_strides": None,
}
DATA = Path(__file__).parent.parent / "data"
REAL_KEYS = [
    line for line in (DATA / "miopen_keys.txt").read_text().splitlines() if not line.startswith("#")
]


@pytest.mark.parametrize("key", REAL_KEYS)
def test_real_keys_round_trip(key: str) -> None:
    problem = parse_miopen_key(key)
    assert format_miopen_key(problem) == key
    assert parse_key(key) == problem


def test_forward_key() -> None:
    assert parse_miopen_key(
        "256-57-58-3x5-512-29-29-48-1x2-2x2-1x1-0-NCHW-FP16-F_g32"
    ) == ConvProblem.forward(
        (48, 256, 57, 58),
        (512, 8, 3, 5),
        stride=2,
        padding=(1, 2),
        groups=32,
        dtype="float16",
    )


@pytest.mark.parametrize(
    ("letter", "direction"), [("B", "backward-data"), ("W", "backward-weights")]
)
def test_backward_keys_begin_with_y(letter: str, direction: str) -> None:
    assert parse_miopen_key(
        f"1536-8-8-8-2x2x2-128-16-17-16-1-0x0x0-2x2x2-1x1x1-0-NCDHW-BF16-{letter}"
    ) == ConvProblem.create(
        direction, (1, 128, 16, 17, 16), (1536, 128, 2, 2, 2), stride=2, dtype="bfloat16"
    )


def test_three_layouts_are_those_of_read_weights_written() -> None:
    options: dict[str, Any] = {"x_layout": "NHWC", "w_layout": "NCHW", "y_layout": "NCHW"}
    problem = ConvProblem.forward((1, 2, 5, 5), (4, 2, 3, 3), **options)
    assert format_miopen_key(problem).endswith("-0-NHWC-NCHW-NCHW-FP32-F")
    gradient = problem.with_direction(Direction.BACKWARD_DATA)
    assert format_miopen_key(gradient).endswith("-0-NCHW-NCHW-NHWC-FP32-B")
    assert parse_miopen_key(format_miopen_key(gradient)) == gradient


@pytest.mark.parametrize("y_dtype", [DataType.INT32, DataType.FLOAT32])
def test_different_dtypes_stand_in_a_row(y_dtype: DataType) -> None:
    problem = ConvProblem.forward((1, 2, 5, 5), (4, 2, 3, 3), dtype="int8", y_dtype=y_dtype)
    word = {"int32": "INT32", "float32": "FP32"}[y_dtype]
    assert format_miopen_key(problem).endswith(f"-NCHW-INT8INT8{word}-F")
    assert parse_miopen_key(format_miopen_key(problem)) == problem


def test_a_transposed_problem_has_the_key_of_its_plain_one() -> None:
    problem = ConvProblem.forward(
        (2, 4, 5, 5), (4, 3, 3, 3), mode="transpose", stride=2, output_padding=1
    )
    assert format_miopen_key(problem) == "4-5-5-3x3-3-12-12-2-0x0-2x2-1x1-0-NCHW-FP32-B"
    assert parse_miopen_key(format_miopen_key(problem)) == problem.plain()


@given(...)
def test_round_trip_of_what_the_key_can_say(problem: ConvProblem) -> None:
    assume(problem.spatial_rank > 1)
    assume(problem.padding == problem.padding_end)
    plain = replace(problem, **ALL_SAYABLE).plain()
    assert parse_miopen_key(format_miopen_key(plain)) == plain


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"padding": ((1, 0), (1, 1))}, "padding_end"),
        ({"x_strides": (1000, 200, 10, 1)}, "x_strides"),
        ({"w_strides": (18, 9, 1, 3)}, "w_strides"),
        ({"y_strides": (1000, 200, 10, 1)}, "y_strides"),
        ({"alpha": 2}, "alpha"),
        ({"beta": 1}, "beta"),
        ({"deterministic": True}, "deterministic"),
        ({"allow_tf32": True}, "allow_tf32"),
        ({"accuracy": "strict"}, "accuracy"),
    ],
)
def test_what_the_key_cannot_say_is_refused(options: dict[str, Any], field: str) -> None:
    problem = ConvProblem.forward((1, 2, 5, 5), (4, 2, 3, 3), **options)
    with pytest.raises(ProblemError, match=f"^{field}: .* in a MIOpen key"):
        format_miopen_key(problem)


def test_one_dimension_is_refused() -> None:
    with pytest.raises(ProblemError, match="2 or 3 spatial dimensions in a MIOpen key"):
        format_miopen_key(ConvProblem.forward((1, 2, 5), (4, 2, 3)))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        # These four are in MIOpen's databases.
        ("1024-4-14-14-1x1x1-256-4-14-14-4-0x0-1x1x1-1x1x1-0-NCHW-FP32-B", "MIOpen key.*C-"),
        ("3-16-112-112-3x7x7-64-16-56-56-4-1x3x3-1x2x2-1x1x1-0-NCHW-FP32-F", "layout.*NCDHW"),
        ("256-38-38-3x3-512-19-19-100-0x0-2x2-1x1-0-NCHW-BF16-F", r"y: .*\(512, 18, 18\)"),
        ("1024-14-14-1x1-2048-7-7-1-0x0-2x2-1x1-0-NCHW-INT8-F", "y_dtype.*int32 or float32"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-1-NCHW-FP32-F", "bias: '1'.*allowed: 0"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-FP8-F", "dtype: 'FP8'.*FP16"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-FP32FP16-F", "dtype.*one or three"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-FP32FP16FP32-F", "dtype.*both x and w"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-CHWN-FP32-F", "layout: 'CHWN'.*NCHW or NHWC"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-NHWC-FP32-F", "MIOpen key"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-NCHW-NCHW-FP32-F", "own spelling, 4-5-5"),
        ("4-5-5-3x3-4-3-3-01-0x0-1x1-1x1-0-NCHW-FP32-F", "own spelling, 4-5-5"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-FP32-F_g1", "own spelling, 4-5-5"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-FP32-F_g3", "groups: 3.*divisor of the 4"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-FP32-F_g0", "groups: 0.*at least 1"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-FP32-F_ciFP8", "options: '_ciFP8'.*_g<groups>"),
        ("4-5-5-3x3-4-3-3-1-0x0-1x1-1x1-0-NCHW-FP32-X", "MIOpen key.*<F|B|W>"),
        ("4-5-5-3x3-4-3-3-1-0x0-0x1-1x1-0-NCHW-FP32-F", "stride: 0.*1 to"),
    ],
)
def test_malformed_and_impossible_keys_are_refused(key: str, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        parse_miopen_key(key)


def test_layouts_of_three_dimensions() -> None:
    problem = ConvProblem.forward((1, 2, 3, 5, 5), (4, 2, 3, 3, 3), layout=Layout.NDHWC)
    assert "-NDHWC-NDHWC-NDHWC-" in format_miopen_key(problem)
    assert parse_miopen_key(format_miopen_key(problem)) == problem
