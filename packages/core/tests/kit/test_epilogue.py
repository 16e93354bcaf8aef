"""The epilogue of a convolution as a value: what launches and programs get of it."""

from __future__ import annotations

import pytest

from convfind.kit.epilogue import NO_EPILOGUE, Epilogue, channel_of_place
from convfind.problem import ConvProblem
from convfind.solver.recipe import ScalarArg, f32, i32, i64
from convfind.types import DataType, Direction


def layer(**more: object) -> ConvProblem:
    return ConvProblem.forward((2, 6, 5, 7), (8, 6, 3, 3), padding=1, **more)  # type: ignore[arg-type]


def test_alpha_and_beta_are_two_numbers_and_no_macro() -> None:
    epilogue = Epilogue.of(layer(alpha=0.5, beta=2.0))
    assert epilogue.arguments == (f32(0.5), f32(2.0))
    assert not epilogue.defines


def test_parts_of_a_sum_are_left_as_they_are() -> None:
    assert NO_EPILOGUE.arguments == (f32(1.0), f32(0.0))
    assert Epilogue.of(layer()) == NO_EPILOGUE


def test_other_arithmetic_is_a_macro_and_the_type_of_the_numbers() -> None:
    problem = layer(alpha=0.1, beta=3.0, dtype="float64")
    epilogue = Epilogue.of(problem, DataType.FLOAT64)
    assert epilogue.arguments == (ScalarArg(0.1, "float64"), ScalarArg(3.0, "float64"))
    assert epilogue.defines == {"CF_ARITHMETIC": "FLOAT64"}


@pytest.mark.parametrize(
    ("alpha", "wrapped"),
    [(-3.0, -3), (2.0**31, -(2**31)), (2.0**32 + 5.0, 5), (-(2.0**31), -(2**31))],
)
def test_whole_numbers_wrap_around_as_the_sums_do(alpha: float, wrapped: int) -> None:
    assert Epilogue(alpha, arithmetic=DataType.INT32).arguments == (i32(wrapped), i32(0))


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_DATA])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_two_numbers_find_the_channel_of_a_place(layout: str, direction: Direction) -> None:
    problem = layer(layout=layout).with_direction(direction)
    channels = problem.shape(direction.writes)[1]
    step = 1 if layout == "NHWC" else 35
    assert channel_of_place(problem) == (i32(channels), i64(step))


def test_weights_have_one_channel() -> None:
    problem = layer().with_direction(Direction.BACKWARD_WEIGHTS)
    assert channel_of_place(problem) == (i32(1), i64(1))
