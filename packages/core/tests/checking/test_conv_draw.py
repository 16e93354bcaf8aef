"""A draw of a convolution: right results pass each check of any draw, wrong ones none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.checking import conv_draw
from convfind.checking.conv_draw import ConvDraw, is_large
from convfind.checking.draw import Assistant, Computed, Results
from convfind.checking.reference import reference_convolution
from convfind.errors import VerificationError
from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.testing.solvers import MockDynamic
from convfind.types import DataType, Direction

PLAIN = ConvProblem.forward((1, 1, 5, 5), (4, 1, 1, 1))


def right_result(draw: ConvDraw, problem: ConvProblem) -> np.ndarray[Any, Any]:
    """The right result, rounded once."""
    first, second = (
        tensor_view(problem, name, draw.memory[name]) for name in problem.direction.reads
    )
    writes = problem.direction.writes
    before = tensor_view(problem, writes, draw.before[writes])
    right = reference_convolution(problem, first, second, before)
    return right.astype(problem.tensor_dtype(writes).numpy)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("channels", [1, 2])
def test_few_numbers_are_right_again(direction: Direction, channels: int) -> None:
    forward = ConvProblem.forward((1, channels, 5, 5), (4, channels, 1, 1))
    problem = forward.with_direction(direction)
    for seed in range(300):
        draw = ConvDraw(problem, seed, "uniform")
        draw.make_ready_again()
        draw.check_again({problem.direction.writes: right_result(draw, problem)}, MockDynamic())


@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.FLOAT64])
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_small_errors_in_few_numbers_are_seen_again(dtype: DataType, beta: float) -> None:
    problem = replace(PLAIN, dtype=dtype, y_dtype=dtype, beta=beta)
    draw = ConvDraw(problem, 1, "uniform")
    draw.make_ready_again()
    wrong = right_result(draw, problem)
    wrong[0, 2, 3, 3] += 1e-5
    with pytest.raises(VerificationError, match="right at first, and wrong when it was timed"):
        draw.check_again({"y": wrong}, MockDynamic())


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("groups", [1, 16])
def test_a_device_is_believed_only_where_it_is_right(direction: Direction, groups: int) -> None:
    forward = ConvProblem.forward((16, 64, 24, 24), (64, 64 // groups, 5, 5), groups=groups)
    problem = forward.with_direction(direction)
    assert is_large(problem)
    by_host = ConvDraw(problem, 1, "uniform").right

    def computed(factor: float) -> Assistant:
        result = (by_host.result * factor).astype(np.float32)

        def assistant(one: Any, memory: Results | None = None) -> Computed:
            return Computed(result, MockDynamic())

        return assistant

    for factor, is_right in ((1.0, True), (1.001, False)):
        draw = ConvDraw(problem, 1, "uniform")
        assert draw.make_ready(computed(factor)) is is_right
        np.testing.assert_allclose(draw.right.result, by_host.result, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "alpha"), [("float32", 1.0), ("bfloat16", 1.0), ("float16", 1.0), ("float16", 500.0)]
)
def test_a_device_adds_up_the_magnitude_of_small_results_and_is_believed_where_it_is_right(
    dtype: str, alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convfind.checking.conv_draw._HOST_REFERENCE_MACS", 0)
    forward = ConvProblem.forward((8, 24, 12, 12), (24, 1, 3, 3), groups=24, padding=1)
    plain = forward.with_direction(Direction.BACKWARD_WEIGHTS)
    # With the second alpha sums of absolute values are more than float16 holds.
    problem = replace(plain, dtype=DataType(dtype), y_dtype=DataType(dtype), alpha=alpha)
    narrow = problem.dtype.numpy
    by_host = ConvDraw(problem, 1, "uniform")
    by_host.make_ready()

    def computed(factor: float) -> Assistant:
        def assistant(one: Any, memory: Results | None = None) -> Computed:
            share = 1.0 if memory is None else factor
            first, second = (
                tensor_view(one, name, (memory or by_host.memory)[name])
                for name in one.direction.reads
            )
            result = share * reference_convolution(one, first, second)
            return Computed(result.astype(narrow), MockDynamic())

        return assistant

    def no_reference(*_: Any) -> Any:
        raise AssertionError("NumPy computed it")

    for factor, is_right in ((1.0, True), (1.1, False)):
        draw = ConvDraw(problem, 1, "uniform")
        with monkeypatch.context() as patch:
            if is_right:
                patch.setattr(conv_draw, "reference_magnitude", no_reference)
            assert draw.make_ready(computed(factor))
        found, expected = draw._magnitude, by_host._magnitude
        assert found is not None
        assert expected is not None
        np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "float32" else 1e-2)
