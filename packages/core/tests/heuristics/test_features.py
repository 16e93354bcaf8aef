"""Features: one formula for a problem and for many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convfind.heuristics.features import (
    FORMULAS,
    LOG_MACS,
    SIZES,
    feature_columns,
    features,
    sizes,
)
from convfind.problem import ConvProblem
from convfind.types import DataType, Direction


@st.composite
def any_problem(draw: st.DrawFn) -> ConvProblem:
    rank = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 4))
    window = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    size = tuple(draw(st.integers(9, 300 if rank < 3 else 30)) for _ in range(rank))
    inner, outer = draw(st.integers(1, 512)), draw(st.integers(1, 512))
    return ConvProblem.create(
        draw(st.sampled_from(list(Direction))),
        (draw(st.integers(1, 2048)), groups * inner, *size),
        (groups * outer, inner, *window),
        stride=draw(st.integers(1, 3)),
        padding=draw(st.integers(0, 2)),
        dilation=draw(st.integers(1, 2)),
        groups=groups,
        dtype=draw(st.sampled_from([DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16])),
    )


@given(any_problem(), st.integers(1, 304))
def test_a_problem_and_a_column_have_the_same_features(problem: ConvProblem, units: int) -> None:
    row = sizes(problem)
    assert len(row) == len(SIZES)
    single = np.frombuffer(features(row, units, problem.direction), np.float32)
    column = feature_columns(np.array([row], np.int32), units, problem.direction)[:, 0]
    np.testing.assert_allclose(column, single, rtol=1e-4, atol=1e-3)
    formulas = features(row, units, problem.direction, remainders=False)
    assert formulas == single[:FORMULAS].tobytes()
    assert (single[FORMULAS:] < 256).all()


@given(any_problem())
def test_the_work_is_that_of_the_direct_formula(problem: ConvProblem) -> None:
    found = np.frombuffer(features(sizes(problem), 100, problem.direction), np.float32)
    assert found[LOG_MACS] == pytest.approx(np.log2(float(problem.macs)))


def test_axes_that_a_problem_lacks_are_of_size_one() -> None:
    line = ConvProblem.forward((2, 3, 50), (4, 3, 5), stride=2, padding=1)
    row = dict(zip(SIZES, sizes(line), strict=True))
    assert (row["depth"], row["height"], row["width"]) == (1, 1, 50)
    assert (row["stride_height"], row["stride_width"]) == (1, 2)
    assert (row["padding_height"], row["padding_width"]) == (0, 1)
    assert row["spatial_rank"] == 1


def test_a_whole_number_of_waves_is_one() -> None:
    problem = ConvProblem.forward((104, 64, 16, 16), (128, 64, 1, 1))  # 208 tiles of 128 x 128
    single = np.frombuffer(features(sizes(problem), 104, problem.direction), np.float32)
    columns = feature_columns(np.array([sizes(problem)] * 3, np.int32), 104, problem.direction)
    np.testing.assert_allclose(columns[:, 1], single, rtol=1e-5)
