"""Bad input: each case raises the right error, which names the field and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.checking.reference import reference_convolution
from convfind.errors import ConvfindError, ProblemError
from convfind.problem import ConvProblem
from convfind.problem.text import (
    format_driver_line,
    format_miopen_key,
    parse_driver_line,
    parse_key,
    parse_miopen_key,
    parse_network_config,
    parse_problem,
    read_layer_file,
)

X, W = (2, 8, 9, 9), (4, 8, 3, 3)
HEAD = "fwd-2x8x9x9-4x8x3x3-s1x1-p0x0-d1x1-g1-NCHW-float32"
KEY = "8-9-9-3x3-4-7-7-2-0x0-1x1-1x1-0-NCHW-FP32-F"

#: Name, what to call, error class, words of the message: the field first, then what is allowed.
Case = tuple[str, Callable[[], object], type[ConvfindError], tuple[str, ...]]


def forward(name: str, *words: str, x: Any = X, w: Any = W, **options: Any) -> Case:
    return name, lambda: ConvProblem.forward(x, w, **options), ProblemError, words


def transpose(name: str, *words: str, w: Any = (8, 4, 3, 3), **options: Any) -> Case:
    return forward(name, *words, w=w, mode="transpose", **options)


def line(name: str, text: str, *words: str) -> Case:
    return name, lambda: parse_driver_line(text), ProblemError, words


def config(name: str, text: str, *words: str) -> Case:
    return name, lambda: parse_network_config(text), ProblemError, words


def call(name: str, function: Callable[[], object], *words: str) -> Case:
    return name, function, ProblemError, words


def problem(**options: Any) -> ConvProblem:
    return ConvProblem.forward(X, W, **options)


SHAPES = [
    forward("x too short", "x:", "3 to 5 dimensions", x=(2, 8)),
    forward("x too long", "x:", "3 to 5 dimensions", x=(1, 2, 3, 4, 5, 6)),
    forward("x empty", "x:", "3 to 5 dimensions", x=()),
    forward("x a number", "x:", "a sequence of whole numbers", x=9),
    forward("x a text", "x:", "a sequence of whole numbers", x="2x8x9x9"),
    forward("x bytes", "x:", "a sequence of whole numbers", x=b"2899"),
    forward("x a set", "x:", "a sequence of whole numbers", x={2, 8, 9, 10}),
    forward("x a tensor", "x: 'ndarray'", "the shape of the tensor", x=np.zeros(X)),
    forward("x missing", "x: None", "a sequence of whole numbers", x=None),
    forward("x with zero", "x: 0", "1 to", x=(2, 8, 0, 9)),
    forward("x negative", "x: -2", "0 to", x=(-2, 8, 9, 9)),
    forward("x fraction", "x: 9.0", "a whole number", x=(2, 8, 9.0, 9)),
    forward("x bool", "x: True", "a whole number", x=(True, 8, 9, 9)),
    forward("x too large a size", "x:", "0 to 1099511627776", x=(2**41, 8, 9, 9)),
    forward("x too large", "x:", "less than 2**63 bytes", x=(2**40, 8, 2**10, 2**10)),
    forward("w another rank", "w:", "as many dimensions as x, which has 4", w=(4, 8, 3)),
    forward("w with zero", "w: 0", "1 to", w=(4, 8, 0, 3)),
    forward("w negative", "w: -4", "1 to", w=(-4, 8, 3, 3)),
    forward("w other channels", "w:", "a second dimension of 8", w=(4, 7, 3, 3)),
    forward("w ungrouped channels", "w:", "a second dimension of 4", groups=2),
    forward(
        "w larger than x", "w:", "within the padded input: axis 1 spans 11 of 9", w=(4, 8, 3, 11)
    ),
    forward("w dilated beyond x", "w:", "axis 0 spans 11 of 9", dilation=5),
    transpose("transposed w other channels", "w:", "a first dimension of 8", w=(4, 8, 3, 3)),
    call("batch negative", lambda: problem().with_batch(-1), "batch: -1", "0 to"),
    call("batch fraction", lambda: problem().with_batch(1.5), "batch: 1.5", "a whole number"),  # type: ignore[arg-type]
]

GEOMETRY = [
    forward("groups zero", "groups: 0", "1 to", groups=0),
    forward("groups negative", "groups: -1", "1 to", groups=-1),
    forward("groups bool", "groups: True", "a whole number", groups=True),
    forward("groups text", "groups: '2'", "a whole number", groups="2"),
    forward("groups do not divide x", "groups: 3", "a divisor of the 8 channels", groups=3),
    forward(
        "groups do not divide w", "groups: 8", "a divisor of the 4 out", groups=8, w=(4, 1, 3, 3)
    ),
    forward("stride zero", "stride: 0", "1 to", stride=0),
    forward("stride negative", "stride: -1", "1 to", stride=(1, -1)),
    forward("stride too many", "stride: (1, 1, 1)", "one number, or 2", stride=(1, 1, 1)),
    forward("stride fraction", "stride: 1.5", "a whole number", stride=1.5),
    forward("dilation zero", "dilation: 0", "1 to", dilation=0),
    forward("dilation too few", "dilation: (1,)", "one number, or 2", dilation=(1,)),
    forward("padding negative", "padding: -1", "0 to", padding=-1),
    forward("padding unknown word", "padding: 'full'", "'same' or 'valid'", padding="full"),
    forward("padding bytes", "padding: b'11'", "a whole number", padding=b"11"),
    forward("padding too few pairs", "padding: ((1, 1),)", "2 pairs", padding=((1, 1),)),
    forward("padding triples", "padding:", "2 pairs", padding=((1, 1, 1), (1, 1, 1))),
    forward("padding mixed", "padding: (1, 1)", "a whole number", padding=(1, (1, 1))),
    forward("padding negative end", "padding: -1", "0 to", padding=((1, -1), (0, 0))),
    forward("padding an array of three", "padding:", "2 pairs", padding=np.ones((3, 2), int)),
    forward("padding an array of floats", "padding: ", "a whole number", padding=np.ones((2, 2))),
    forward("padding of another rank", "padding:", "whole number", padding=np.ones((2, 2, 2), int)),
    forward("stride without end", "stride: (0, 1, 2", "one number, or 2", stride=count()),
    forward("keyword shortened", "keyword: 'pad'", "allowed: padding", pad=1),
    forward("keyword misspelt", "keyword: 'strides'", "stride", strides=1),
    forward("keyword of nothing", "keyword: 'qqq'", "stride, padding, dilation", qqq=1),
    forward("padding bool", "padding: True", "a whole number", padding=True),
    forward("output padding", "output_padding:", "0 unless mode is transpose", output_padding=1),
    transpose(
        "output padding of stride", "output_padding:", "less than the stride", output_padding=1
    ),
    transpose(
        "output padding past the padding",
        "output_padding: (2, 2)",
        "than the dilation",
        output_padding=2,
        dilation=3,
    ),
    transpose("output padding negative", "output_padding: -1", "0 to", output_padding=-1),
    transpose("same transposed", "padding: 'same'", "where mode is transpose", padding="same"),
    transpose("all padded away", "padding: (6, 6)", "result axis 0 has size -1", padding=6),
    transpose("result too large", "y:", "sizes of at most", stride=2**40),
    forward("mode unknown", "mode: 'deconv'", "conv, transpose", mode="deconv"),
]

TYPES = [
    forward("dtype unknown", "dtype: 'fp32'", "float64, float32, float16, bfloat16", dtype="fp32"),
    forward("dtype of numpy", "dtype:", "float64, float32", dtype=np.float32),
    forward("dtype int32", "dtype: 'int32'", "float16, bfloat16 or int8", dtype="int32"),
    forward("y_dtype other float", "y_dtype: 'float16'", "float32 with", y_dtype="float16"),
    forward("y_dtype int8", "y_dtype: 'int8'", "int32 or float32", dtype="int8", y_dtype="int8"),
    transpose("int8 transposed", "dtype: 'int8'", "a floating type", dtype="int8"),
    call(
        "int8 gradient",
        lambda: ConvProblem.backward_data(X, W, dtype="int8"),
        "dtype: 'int8'",
        "neither gradients",
    ),
    forward("layout unknown", "layout: 'CHWN'", "NCHW, NHWC", layout="CHWN"),
    forward("layout of other rank", "layout: 'NCW'", "NCHW or NHWC", layout="NCW"),
    forward("x layout unknown", "x_layout: 'x'", "NCHW, NHWC", x_layout="x"),
    forward("w layout of other rank", "w_layout: 'NDHWC'", "NCHW or NHWC", w_layout="NDHWC"),
    forward("strides overlap", "x_strides:", "do not overlap", x_strides=(648, 81, 9, 0)),
    forward("strides too short", "y_strides:", "do not overlap", y_strides=(100, 49, 7, 1)),
    forward("strides too few", "w_strides:", "one number, or 4", w_strides=(9, 3, 1)),
    forward("strides negative", "x_strides: -1", "0 to", x_strides=(648, 81, 9, -1)),
    forward(
        "strides too large",
        "x_strides:",
        "2**63 bytes",
        x_strides=(2**40, 81, 9, 1),
        x=(2**25, 8, 9, 9),
    ),
    forward("alpha NaN", "alpha: nan", "a finite float32 number", alpha=math.nan),
    forward("alpha infinite", "alpha: inf", "a finite float32 number", alpha=math.inf),
    forward("alpha beyond float32", "alpha: 1e+39", "a finite float32 number", alpha=1e39),
    forward("alpha beyond float64", "alpha: 1", "a finite", alpha=10**400, dtype="float64"),
    forward("alpha bool", "alpha: True", "a finite number", alpha=True),
    forward("beta text", "beta: '1'", "a finite number", beta="1"),
    forward("beta complex", "beta: 1j", "a finite number", beta=1j),
    forward("alpha fraction in int32", "alpha: 0.5", "a whole number", alpha=0.5, dtype="int8"),
    forward("deterministic a number", "deterministic: 1", "True or False", deterministic=1),
    forward("tf32 a text", "allow_tf32: 'no'", "True or False", allow_tf32="no"),
    forward("accuracy unknown", "accuracy: 'high'", "strict, normal, relaxed", accuracy="high"),
    call(
        "direction unknown",
        lambda: problem().with_direction("fwd"),
        "direction: 'fwd'",
        "forward, backward-data, backward-weights",
    ),
    call("replace without checks", lambda: replace(problem(), stride=(0, 0)), "stride: 0", "1 to"),
]

DRIVER_LINES = [
    line("line empty", "", "driver line: ''", "conv|convfp16|convbfp16|convint8"),
    line("line only a comment", "# conv -n 1", "driver line:", "conv|convfp16"),
    line("line of another driver", "MIOpenDriver pool -n 1", "driver line:", "conv|convfp16"),
    line("8-bit float", "convfp8 -n 1", "driver line: 'convfp8", "conv|convfp16"),
    line("unknown long flag", "conv --batch 4", "driver line: '--batch'", "--batchsize"),
    line("misspelt flag", "conv --out_chanels 4", "'--out_chanels'", "--out_channels"),
    line("one dash of two", "conv -in_h 4", "driver line: '-in_h'", "--in_h"),
    line("unknown short flag", "conv -M 4", "driver line: '-M'", "--batchsize"),
    line("stray word", "conv 4", "driver line: '4'", "--batchsize"),
    line("value missing at the end", "conv -n", "batchsize: None", "a value after -n"),
    line("value missing in between", "conv -c -n 4", "in_channels: '-n'", "a value after -c"),
    line("value in the comment", "conv -n # 4", "batchsize: None", "a value after -n"),
    line("value not a number", "conv -H twelve", "in_h: 'twelve'", "a whole number"),
    line("value a fraction", "conv -H 1.5", "in_h: '1.5'", "a whole number"),
    line("value negative", "conv -p -1", "pad_h: '-1'", "not negative"),
    line("value huge", f"conv -n {10**30}", "batchsize:", "a whole number"),
    line("run flag not a number", "conv -i many", "iter: 'many'", "a whole number"),
    line("batch zero in a line", "conv -n 0", "batchsize: 0", "at least 1"),
    line("stride zero in a line", "conv -u 0", "conv_stride_h: 0", "at least 1"),
    line("one dimension in a line", "conv -_ 1", "spatial_dim: 1", "2 or 3"),
    line("mode unknown in a line", "conv -m deconv", "mode: 'deconv'", "conv or trans"),
    line("pad mode unknown", "conv -z full", "pad_mode: 'full'", "default, same or valid"),
    line("pad mode of dilated", "conv -z same -l 2", "pad_mode: 'same'", "default where"),
    line("pad mode of transposed", "conv -z valid -m trans", "pad_mode: 'valid'", "default where"),
    line("layout unknown in a line", "conv -I CHWN", "in_layout: 'CHWN'", "NCHW or NHWC"),
    line("layout 2-D in 3-D", "conv -_ 3 -O NCHW", "out_layout: 'NCHW'", "NCDHW or NDHWC"),
    line("directions unknown", "conv -F 8", "forw: 8", "1 (fwd), 2 (bwd), 4 (wrw)"),
    line("groups in a line", "conv -c 4 -k 6 -g 4", "group_count: 4", "out_channels, which is 6"),
    line("cast type", "conv -U fp8", "in_cast_type: 'fp8'", "-1: nothing else"),
    line("vector layout", "conv -Z 1 -L 4", "tensor_vect: '1'", "0: nothing else"),
    line("padding value", "conv -r 1", "pad_val: '1'", "0: nothing else"),
    line("bias", "conv -b 1", "bias: '1'", "0: nothing else"),
    line("int8 gradient in a line", "convint8 -F 4", "dtype: 'int8'", "a floating type"),
    line("filter too large in a line", "conv -H 2", "w:", "axis 0 spans 3 of 2"),
    line(
        "output padding in a line", "conv -m trans -Y 1", "output_padding:", "less than the stride"
    ),
]

KEYS = [
    config("config empty", "", "network config: ''", "<x>-<w>"),
    config("config cut short", HEAD[:-9], "network config:", "<x>-<w>"),
    config("config of unknown dtype", HEAD[:-2] + "33", "dtype: 'float33'", "float32"),
    config("config of unknown layout", HEAD.replace("NCHW", "ABCD"), "layout: 'ABCD'", "NCHW"),
    config("config of other rank", HEAD.replace("4x8x3x3", "4x8x3"), "w:", "as many dimensions"),
    config("config with too few strides", HEAD.replace("s1x1", "s1"), "stride: (1,)", "2 numbers"),
    config("config with empty size", HEAD.replace("p0x0", "p0x"), "padding: ''", "a whole number"),
    config("config impossible", HEAD.replace("9x9", "9x2"), "w:", "axis 1 spans 3 of 2"),
    config("config of unknown tail", HEAD + "_gamma:1", "network config:", "beta, deterministic"),
    config("config tail without value", HEAD + "_beta", "network config:", "':' and a value"),
    config("config tail not a number", HEAD + "_beta:one", "beta: 'one'", "a finite number"),
    config("config tail NaN", HEAD + "_beta:nan", "beta: nan", "a finite float32 number"),
    config("config tail not a flag", HEAD + "_tf32:yes", "allow_tf32: 'yes'", "1"),
    config("config tail wrong rank", HEAD + "_pe:1", "padding_end: (1,)", "which has 2"),
    config("config with default tail", HEAD + "_alpha:1.0", "network config:", "one spelling"),
    config("config with line end", HEAD + "\n", "network config:", "<x>-<w>"),
    call("key of neither form", lambda: parse_key("64-"), "MIOpen key: '64-'", "C-[D-]H-W"),
    call("key a text", lambda: parse_key("conv1"), "key: 'conv1'", "network config", "MIOpen key"),
    call(
        "key of wrong size",
        lambda: parse_miopen_key(KEY.replace("-7-7-", "-8-8-")),
        "y:",
        "(4, 7, 7)",
    ),
    call(
        "key with bias", lambda: parse_miopen_key(KEY.replace("-0-NC", "-1-NC")), "bias: '1'", "0"
    ),
    call(
        "key of 8-bit float",
        lambda: parse_miopen_key(KEY.replace("FP32", "FP8")),
        "dtype: 'FP8'",
        "FP32",
    ),
    call(
        "key with cast", lambda: parse_miopen_key(KEY + "_ciFP8"), "options: '_ciFP8'", "_g<groups>"
    ),
    call("key of no groups", lambda: parse_miopen_key(KEY + "_g0"), "groups: 0", "at least 1"),
    call(
        "key of a scaled problem",
        lambda: format_miopen_key(problem(beta=1)),
        "beta: 1.0",
        "0.0 in a",
    ),
    call(
        "line of float64",
        lambda: format_driver_line(problem(dtype="float64")),
        "dtype: 'float64'",
        "float32",
    ),
    call(
        "problem of no form",
        lambda: parse_problem("resnet50"),
        "problem: 'resnet50'",
        "MIOpenDriver",
    ),
    call("problem empty", lambda: parse_problem(" "), "problem: ' '", "MIOpenDriver"),
]

FILES = [
    call(
        "layer file missing", lambda: read_layer_file("no/such.txt"), "layer file:", "no/such.txt"
    ),
    call(
        "layer file a folder",
        lambda: read_layer_file(Path(__file__).parent),
        "layer file:",
        "readable",
    ),
]

TENSORS = [
    call(
        "tensor of another shape",
        lambda: reference_convolution(problem(), np.zeros((2, 9, 9, 8)), np.zeros(W)),
        "x: (2, 9, 9, 8)",
        "shape (2, 8, 9, 9) in layout NCHW",
    ),
    call(
        "tensor without previous contents",
        lambda: reference_convolution(problem(beta=1), np.zeros(X), np.zeros(W)),
        "out: None",
        "previous contents of y",
    ),
]

CASES: list[Case] = [*SHAPES, *GEOMETRY, *TYPES, *DRIVER_LINES, *KEYS, *FILES, *TENSORS]


@pytest.mark.parametrize(
    ("function", "error", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_bad_input_names_field_and_legal_values(
    function: Callable[[], object], error: type[ConvfindError], words: tuple[str, ...]
) -> None:
    with pytest.raises(error) as caught:
        function()
    assert type(caught.value) is error
    message = str(caught.value)
    for word in words:
        assert word in message
    assert message[0] == message[0].lower() or message.startswith("MIOpen")
    assert not message.endswith(".")


def test_cases_have_names_of_their_own() -> None:
    assert len({case[0] for case in CASES}) == len(CASES)
