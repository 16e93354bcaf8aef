"""Poolings are right: in both layouts and all types, dilated, padded, with indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.pooling import PoolingFunction, PoolingProblem

torch = pytest.importorskip("torch")

Check = Callable[..., None]

WINDOWS: dict[str, dict[str, Any]] = {
    "resnet": {"size": (3, 3), "stride": (2, 2), "padding": (1, 1)},
    "vgg": {"size": (2, 2), "stride": (2, 2)},
    "same": {"size": (5, 5), "padding": (2, 2)},
    "wild": {
        "size": (3, 2),
        "stride": (3, 4),
        "padding": (1, 0),
        "padding_end": (0, 1),
        "dilation": (2, 3),
        "ceil_mode": True,
    },
    "ceil": {"size": (3, 3), "stride": (2, 2), "ceil_mode": True},
}

layouts = pytest.mark.parametrize("channels_last", [False, True], ids=["first", "last"])
functions = pytest.mark.parametrize("function", PoolingFunction)


@layouts
@functions
@pytest.mark.parametrize("window", WINDOWS)
def test_pooling_is_right(
    check: Check, function: PoolingFunction, window: str, channels_last: bool
) -> None:
    shape, how = (2, 19, 18, 45), WINDOWS[window]
    check(PoolingProblem(x=shape, function=function, channels_last=channels_last, **how))


@layouts
@functions
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_pooling_of_every_type_is_right(
    check: Check, function: PoolingFunction, dtype: str, channels_last: bool
) -> None:
    how: dict[str, Any] = {**WINDOWS["resnet"], "dtype": dtype, "channels_last": channels_last}
    check(PoolingProblem(x=(1, 17, 9, 33), function=function, **how))


@layouts
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_means_of_whole_numbers_are_right(check: Check, dtype: str, channels_last: bool) -> None:
    how: dict[str, Any] = {**WINDOWS["same"], "dtype": dtype}
    problem = PoolingProblem(x=(1, 8, 9, 16), function=PoolingFunction.AVERAGE, **how)
    data = np.full(problem.x, 100, dtype)
    assert (problem.reference({"x": data})["y"] == 100).all(), "sums are beyond a byte"
    layout = replace(problem, channels_last=channels_last)
    check(layout, inputs={"x": data})
    check(layout)


@functions
@pytest.mark.parametrize("window", ["resnet", "same", "wild"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("channels", [20, 24])
def test_pooling_of_channels_in_fours_and_eights_is_right(
    check: Check, function: PoolingFunction, window: str, dtype: str, channels: int
) -> None:
    how: dict[str, Any] = {**WINDOWS[window], "dtype": dtype, "channels_last": True}
    check(PoolingProblem(x=(2, channels, 35, 33), function=function, **how), not_finite=False)


@functions
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_pooling_of_columns_in_fours_is_right(
    check: Check, function: PoolingFunction, window: str, dtype: str
) -> None:
    width = 63 if window == "wild" else 33 if window == "ceil" else 32
    how: dict[str, Any] = {**WINDOWS[window], "dtype": dtype, "function": function}
    problem = PoolingProblem(x=(2, 3, 35, width), **how)
    assert not problem.result.shape[-1] % 4
    check(problem, not_finite=False)


@layouts
@functions
def test_pooling_along_one_and_three_axes_is_right(
    check: Check, function: PoolingFunction, channels_last: bool
) -> None:
    how: dict[str, Any] = {"function": function, "channels_last": channels_last}
    check(PoolingProblem(x=(2, 5, 4000), size=(5,), padding=(2,), **how))
    check(PoolingProblem(x=(1, 2, 2500), size=(2200,), stride=(7,), **how))
    threes: dict[str, Any] = {"size": (2, 3, 2), "stride": (2, 1, 2), "padding": (1, 1, 0)}
    check(PoolingProblem(x=(1, 3, 6, 7, 9), **threes, **how))


@layouts
@functions
def test_pooling_of_whole_images_is_right(
    check: Check, function: PoolingFunction, channels_last: bool
) -> None:
    check(
        PoolingProblem(x=(2, 21, 7, 5), size=(7, 5), function=function, channels_last=channels_last)
    )


@layouts
def test_means_may_count_padding_or_have_a_divisor(check: Check, channels_last: bool) -> None:
    how: dict[str, Any] = {**WINDOWS["resnet"], "function": PoolingFunction.AVERAGE}
    how["channels_last"] = channels_last
    check(PoolingProblem(x=(2, 5, 18, 30), count_include_pad=True, ceil_mode=True, **how))
    check(PoolingProblem(x=(2, 5, 18, 30), divisor=7, **how))


@layouts
def test_indices_are_right(check: Check, channels_last: bool) -> None:
    how: dict[str, Any] = {**WINDOWS["wild"], "function": PoolingFunction.MAX}
    how["channels_last"] = channels_last
    check(PoolingProblem(x=(2, 3, 16, 17), indices=True, **how))


def test_whole_numbers_have_a_largest(check: Check) -> None:
    how: dict[str, Any] = {**WINDOWS["same"], "function": PoolingFunction.MAX}
    for dtype in (ElementType.INT8, ElementType.UINT8):
        check(PoolingProblem(x=(2, 3, 8, 33), dtype=dtype, **how))


@layouts
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float32"])
def test_windows_of_padding_alone_have_the_least_number(
    check: Check, dtype: str, channels_last: bool
) -> None:
    how: dict[str, Any] = {"size": (2, 3), "padding": (3, 4), "function": PoolingFunction.MAX}
    kind = ElementType(dtype)
    check(PoolingProblem(x=(2, 17, 5, 33), dtype=kind, channels_last=channels_last, **how))


@pytest.mark.parametrize("window", ["resnet", "vgg", "same", "ceil"])
def test_the_reference_is_pytorch_s(window: str) -> None:
    how = dict(WINDOWS[window])
    x = np.random.default_rng(3).standard_normal((2, 3, 16, 19))
    data = torch.from_numpy(x)
    options = {"ceil_mode": how.get("ceil_mode", False), "padding": how.get("padding", 0)}
    size, stride = how["size"], how.get("stride", 1)
    largest = PoolingProblem(x=x.shape, function=PoolingFunction.MAX, indices=True, **how)
    expected, places = torch.nn.functional.max_pool2d(
        data, size, stride, return_indices=True, **options
    )
    found = largest.reference({"x": x})
    np.testing.assert_array_equal(found["y"], expected)
    plane = 16 * 19
    np.testing.assert_array_equal(found["indices"] % plane, places)
    for include in (False, True):
        mean = PoolingProblem(
            x=x.shape, function=PoolingFunction.AVERAGE, count_include_pad=include, **how
        )
        expected = torch.nn.functional.avg_pool2d(
            data, size, stride, count_include_pad=include, **options
        )
        np.testing.assert_allclose(mean.reference({"x": x})["y"], expected, rtol=1e-12)


def test_windows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ProblemError, match="windows that fit 4 elements"):
        PoolingProblem(x=(1, 1, 4, 4), function=PoolingFunction.MAX, size=(5, 5))
    with pytest.raises(ProblemError, match="allowed: function max"):
        PoolingProblem(x=(1, 1, 4), function=PoolingFunction.AVERAGE, size=(2,), indices=True)
