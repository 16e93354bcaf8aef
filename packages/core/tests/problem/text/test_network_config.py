"""The network config: one text for each problem, and back."""

from __future__ import annotations

import pytest
from hypothesis import given

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.problem.text import format_network_config, parse_key, parse_network_config

EVERYTHING = (
    "bwd-data-2x4x5x6-4x3x3x1-s2x3-p1x0-d1x2-g2-NHWC-float32_pe:0x0_mode:transpose_op:1x2"
    "_w:NCHW_y:NCHW_xs:200x1x30x4_alpha:-0.1_beta:1e-05_deterministic:1_tf32:1"
    "_accuracy:strict"
)


@pytest.mark.parametrize(
    "text",
    [
        "fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32",
        "bwd-weights-1x3x9-8x3x3-s2-p0-d1-g1-NWC-bfloat16",
        "fwd-1x8x5x5x5-8x1x3x3x3-s1x1x1-p1x1x1-d1x1x1-g8-NCDHW-float64_beta:1.0",
        "fwd-1x3x9x9-8x3x3x3-s1x1-p0x0-d1x1-g1-NCHW-int8_ydtype:float32",
        EVERYTHING,
    ],
)
def test_reads_what_it_writes(text: str) -> None:
    assert format_network_config(parse_network_config(text)) == text


def test_the_tail_is_what_differs_from_the_defaults() -> None:
    problem = ConvProblem.create(
        "backward-data",
        (2, 4, 5, 6),
        (4, 3, 3, 1),
        stride=(2, 3),
        padding=((1, 0), (0, 0)),
        dilation=(1, 2),
        groups=2,
        mode="transpose",
        output_padding=(1, 2),
        dtype="float32",
        layout="NHWC",
        w_layout="NCHW",
        y_layout="NCHW",
        x_strides=(200, 1, 30, 4),
        alpha=-0.1,
        beta=1e-5,
        deterministic=True,
        allow_tf32=True,
        accuracy="strict",
    )
    assert problem.key == EVERYTHING


@given(...)
def test_round_trip(problem: ConvProblem) -> None:
    assert parse_network_config(format_network_config(problem)) == problem
    assert parse_key(problem.key) == problem


@given(...)
def test_different_problems_have_different_keys(one: ConvProblem, other: ConvProblem) -> None:
    assert (one == other) == (one.key == other.key)


@given(...)
def test_key_is_one_printable_word_of_modest_length(problem: ConvProblem) -> None:
    assert problem.key.isascii()
    assert problem.key.isprintable()
    assert not set(problem.key) & set(" =;|/")
    assert len(problem.key) < 300


@pytest.mark.parametrize(
    "text",
    [
        "fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32_beta:0.0",
        "fwd-16x64x56x56-64x64x3x3-s1x1-p01x1-d1x1-g1-NCHW-float32",
        "fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32_beta:1",
        "fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32_tf32:1_beta:1.0",
        "fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32_beta:1.0_beta:1.0",
        "fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32_pe:1x1",
    ],
)
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(ProblemError, match="the one spelling of this problem, fwd-16x64x56x56"):
        parse_network_config(text)
