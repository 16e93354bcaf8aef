"""`ConvProblem`: derived sizes, one spelling for equal problems, directions, transposes."""

from __future__ import annotations

import math
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

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
        ((1, 6, 5, 5, 5), (4, 2, 1, 2, 3), {"groups": 3, "w": None}, None),
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
    x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], y: tuple[int, ...] | None
) -> None:
    if y is None:
        return
    assert ConvProblem.forward(x, w, **options).y_shape == y
