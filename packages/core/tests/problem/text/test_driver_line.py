"""MIOpenDriver command lines: real ones, every flag, defaults, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.problem.syntax.driver_flags import FLAGS, FlagKind
from convfind.problem.text import format_driver_line, parse_driver_line
from convfind.types import AccuracyClass, DataType, Direction, Layout

DATA = Path(__file__).parent.parent / "data"
REAL_LINES = [
    line
    for line in (DATA / "driver_lines.txt").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("line", REAL_LINES)
def test_real_lines_round_trip(line: str) -> None:
    problems = parse_driver_line(line)
    assert problems
    for problem in problems:
        assert parse_driver_line(format_driver_line(problem)) == (problem,)


def test_defaults_are_those_of_the_driver() -> None:
    problems = parse_driver_line("conv")
    assert problems[0] == ConvProblem.forward((100, 3, 32, 32), (32, 3, 3, 3))
    assert [problem.direction for problem in problems] == list(Direction)
    solid = parse_driver_line("conv -_ 3 -F 1")[0]
    assert solid == ConvProblem.forward((100, 3, 32, 32, 32), (32, 3, 3, 3, 3))


def test_short_flags() -> None:
    line = (
        "MIOpenDriver convfp16 -_ 3 -n 2 -c 4 -! 7 -H 8 -W 9 -k 6 -@ 2 -y 3 -x 1 -$ 1 -p 2 -q 0"
        " -# 2 -u 3 -v 1 -^ 1 -l 2 -j 3 -g 2 -m conv -z default -I NDHWC -f NDHWC -O NCDHW -F 4"
    )
    assert parse_driver_line(line) == (
        ConvProblem.backward_weights(
            (2, 4, 7, 8, 9),
            (6, 2, 2, 3, 1),
            padding=(1, 2, 0),
            stride=(2, 3, 1),
            dilation=(1, 2, 3),
            groups=2,
            dtype="float16",
            layout="NDHWC",
            y_layout="NCDHW",
        ),
    )


def test_long_flags_mean_the_same_as_short_ones() -> None:
    values = {"spatial_dim": "3", "mode": "trans", "conv_stride_d": "2", "trans_output_pad_d": "1"}
    long = " ".join(f"--{flag.long} {values[flag.long]}" for flag in FLAGS if flag.long in values)
    short = " ".join(f"-{flag.short} {values[flag.long]}" for flag in FLAGS if flag.long in values)
    assert parse_driver_line(f"conv {long}") == parse_driver_line(f"conv {short}")


def test_flags_are_unambiguous() -> None:
    assert len({flag.long for flag in FLAGS}) == len({flag.short for flag in FLAGS}) == len(FLAGS)


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.kind.name.startswith("RUN")])
def test_how_the_driver_runs_does_not_matter(flag: Any) -> None:
    value = "7" if flag.kind is FlagKind.RUN_NUMBER else "word"
    assert parse_driver_line(f"conv -{flag.short} {value}") == parse_driver_line("conv")


@pytest.mark.parametrize(
    ("forw", "directions"),
    [
        (0, ["fwd", "bwd-data", "bwd-weights"]),
        (1, ["fwd"]),
        (2, ["bwd-data"]),
        (3, ["fwd", "bwd-data"]),
        (4, ["bwd-weights"]),
        (5, ["fwd", "bwd-weights"]),
        (6, ["bwd-data", "bwd-weights"]),
        (7, ["fwd", "bwd-data", "bwd-weights"]),
    ],
)
def test_forw_is_a_bit_mask(forw: int, directions: list[str]) -> None:
    problems = parse_driver_line(f"conv -F {forw}")
    assert [problem.direction.short for problem in problems] == directions


@pytest.mark.parametrize(
    ("word", "dtype"),
    [("conv", "float32"), ("convfp16", "float16"), ("convbfp16", "bfloat16"), ("convint8", "int8")],
)
def test_base_word_says_the_dtype(word: str, dtype: str) -> None:
    assert parse_driver_line(f"{word} -F 1")[0].dtype.value == dtype


def test_int8_has_only_a_forward_direction() -> None:
    (problem,) = parse_driver_line("convint8")
    assert (problem.direction, problem.y_dtype) == (Direction.FORWARD, DataType.INT32)
    with pytest.raises(ProblemError, match=r"dtype.*floating"):
        parse_driver_line("convint8 -F 2")


@pytest.mark.parametrize(
    "prefix", ["", "MIOpenDriver ", "./bin/MIOpenDriver ", "/opt/rocm/bin/MIOpenDriver ", "  "]
)
def test_the_program_may_come_first_and_a_comment_last(prefix: str) -> None:
    line = f"{prefix}conv -n 4 -F 1\t# stem x2 -n 8"
    assert parse_driver_line(line)[0].x_shape == (4, 3, 32, 32)


def test_transposed() -> None:
    line = "conv -n 2 -c 4 -H 5 -W 6 -k 6 -y 3 -x 3 -u 2 -v 3 -m trans -g 2 -Y 1 -X 2 -F 2"
    (problem,) = parse_driver_line(line)
    assert problem == ConvProblem.backward_data(
        (2, 4, 5, 6),
        (4, 3, 3, 3),
        stride=(2, 3),
        mode="transpose",
        groups=2,
        output_padding=(1, 2),
    )
    assert parse_driver_line(format_driver_line(problem)) == (problem,)


@pytest.mark.parametrize(
    ("flags", "padding"),
    [
        ("-z valid -p 3 -q 3", (0, 0)),
        ("-z same -p 9 -q 9", (1, 1)),
        ("-z same -y 5 -x 1", (2, 0)),
        ("-z same -y 4 -x 2", (1, 0)),  # half of 3 and of 1, rounded down
        ("-z same -u 2 -v 2 -H 33", (1, 0)),
        ("-z same -u 5 -v 5", (0, 0)),
        ("-z same -y 1 -x 1 -l 2 -j 2", (0, 0)),
        ("-z default -p 2 -q 1", (2, 1)),
    ],
)
def test_pad_mode(flags: str, padding: tuple[int, int]) -> None:
    (problem,) = parse_driver_line(f"conv {flags} -F 1")
    assert problem.padding == problem.padding_end == padding


def test_layout_words_in_any_case() -> None:
    (problem,) = parse_driver_line("conv --in_layout nhwc --fil_layout NHWC --out_layout nhwc -F 1")
    assert problem.layouts_agree
    assert problem.layout is Layout.NHWC


@given(...)
def test_round_trip_of_what_the_line_can_say(problem: ConvProblem) -> None:
    assume(problem.spatial_rank > 1)
    assume(problem.padding == problem.padding_end)
    assume(problem.dtype is not DataType.FLOAT64)
    assume(problem.y_dtype is problem.dtype.result)
    sayable = replace(
        problem,
        alpha=1.0,
        beta=0.0,
        deterministic=False,
        allow_tf32=False,
        accuracy=AccuracyClass.NORMAL,
        x_strides=None,
        w_strides=None,
        y_strides=None,
    )
    assert parse_driver_line(format_driver_line(sayable)) == (sayable,)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"padding": ((1, 0), (1, 1))}, "padding_end"),
        ({"x_strides": (1000, 200, 10, 1)}, "x_strides"),
        ({"alpha": 2}, "alpha"),
        ({"deterministic": True}, "deterministic"),
        ({"dtype": "float64"}, "dtype"),
        ({"dtype": "int8", "y_dtype": "float32"}, "y_dtype"),
    ],
)
def test_what_a_line_cannot_say_is_refused(options: dict[str, Any], field: str) -> None:
    problem = ConvProblem.forward((1, 2, 5, 5), (4, 2, 3, 3), **options)
    with pytest.raises(ProblemError, match=f"^{field}: "):
        format_driver_line(problem)
