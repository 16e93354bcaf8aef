"""What is right with a bias, an added tensor and an activation, and how wrong results are seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.checking.accuracy import check_error, error_bound
from convfind.checking.checksum import Checksum
from convfind.checking.conv_draw import ConvDraw
from convfind.checking.random_data import random_operands
from convfind.checking.reference import (
    finished_result,
    reference_convolution,
    reference_magnitude,
    right_result,
)
from convfind.errors import ProblemError
from convfind.problem import Activation, ActivationKind, ConvProblem
from convfind.runtime.tensors import tensor_view

Array = np.ndarray[Any, Any]


def layer(**more: Any) -> ConvProblem:
    return ConvProblem.forward((2, 4, 9, 8), (6, 4, 3, 3), padding=1, **more)


def operands(
    problem: ConvProblem, seed: int = 1
) -> tuple[Array, Array, Array | None, Array | None]:
    found = random_operands(problem, seed)
    return found["x"], found["w"], found.get("z"), found.get("bias")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("last", [False, True])
def test_all_of_an_epilogue_is_applied_in_its_order(layout: str, last: bool) -> None:
    problem = layer(
        **{"layout": layout, "alpha": 0.5, "beta": 2.0, "bias": True, "add": True},
        **{"activation": Activation("leaky", 0.1), "add_last": last},
    )
    x, w, z, bias = operands(problem)
    assert z is not None
    assert bias is not None
    by_channel = bias if layout == "NHWC" else bias.reshape(-1, 1, 1)
    plain = layer(layout=layout)
    added = 2.0 * z.astype("d")
    sums = 0.5 * reference_convolution(plain, x, w) + by_channel.astype("d")
    sums += 0.0 if last else added
    expected = np.where(sums < 0, 0.1 * sums, sums) + (added if last else 0.0)
    np.testing.assert_allclose(reference_convolution(problem, x, w, z, bias), expected, rtol=1e-12)
    summed = reference_convolution(problem.without_activation(), x, w, z, bias)
    done = finished_result(problem, summed, z)
    np.testing.assert_allclose(done.result, expected, rtol=1e-12)


@pytest.mark.parametrize("last", [False, True])
def test_large_results_are_finished_in_parts(last: bool) -> None:
    how: dict[str, Any] = {"activation": Activation("relu"), "add": True, "beta": 2.0}
    problem = ConvProblem.forward((3, 1, 512, 512), (2, 1, 1, 1), add_last=last, **how)
    rng = np.random.default_rng(1)
    sums, z = rng.normal(size=(2, 3, 2, 512, 512))
    done = finished_result(problem, sums, z)
    expected = np.maximum(sums, 0) + (2 * z if last else 0)
    np.testing.assert_array_equal(done.result, expected)


def test_a_tensor_that_is_missing_is_named() -> None:
    x, w, z, bias = operands(problem := layer(bias=True, add=True))
    with pytest.raises(ProblemError, match="bias"):
        reference_convolution(problem, x, w, z)
    with pytest.raises(ProblemError, match="out"):
        reference_convolution(problem, x, w, None, bias)
    with pytest.raises(ProblemError, match="bias"):
        reference_convolution(problem, x, w, z, np.zeros(5))


def test_int8_wraps_around_with_its_bias_as_devices_do() -> None:
    problem = layer(dtype="int8", bias=True)
    x, w, _, _ = operands(problem)
    bias = np.full(6, 2**31 - 1, np.int32)
    result = reference_convolution(problem, x, w, None, bias)
    plain = reference_convolution(layer(dtype="int8"), x, w)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, plain + np.int32(2**31 - 1))


@pytest.mark.parametrize("kind", ActivationKind)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("last", [False, True])
def test_roundings_stay_within_the_bound_and_faults_do_not(
    kind: str, dtype: str, last: bool
) -> None:
    problem = layer(dtype=dtype, bias=True, add=True, activation=kind, add_last=last)
    x, w, z, bias = operands(problem)
    right = right_result(problem, x, w, z, bias)
    magnitude = reference_magnitude(problem, x, w, z, bias)
    bound = error_bound(problem)
    rounded = right.result.astype(dtype)
    assert check_error(right.error_of(rounded, magnitude), bound)
    for other in (replace(problem, bias=False), replace(problem, add_last=not last)):
        wrong = reference_convolution(other, x, w, z, bias).astype(dtype)
        error = right.error_of(wrong, magnitude)
        assert not check_error(error, bound)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("mode", ["conv", "transpose"])
def test_a_checksum_holds_bias_and_what_is_added(layout: str, mode: str) -> None:
    shape = (6, 4, 3, 3) if mode == "conv" else (4, 6, 3, 3)
    problem = ConvProblem.forward(
        (2, 4, 9, 8), shape, padding=1, layout=layout, mode=mode, bias=True, add=True, beta=0.5
    ).plain()
    draw = ConvDraw(problem, 3, "uniform")
    right = draw.right.result.astype(np.float32)
    assert draw.checksum.allows(draw.checksum.error_of(right), error_bound(problem))
    wrong = right.copy()
    wrong[0, 0, 0, 0] += 0.01
    assert not draw.checksum.allows(draw.checksum.error_of(wrong), error_bound(problem))
    views = {name: tensor_view(problem, name, memory) for name, memory in draw.memory.items()}
    first, second = (views[name] for name in problem.direction.reads)
    convolved = Checksum(problem.without_epilogue(), first, second, views["z"], None)
    assert not convolved.allows(convolved.error_of(right), error_bound(problem))


def test_what_is_added_is_drawn_anew_with_each_seed_and_never_changes_the_rest() -> None:
    fused, plain = layer(bias=True, add=True), layer()
    first, again, other = (random_operands(fused, seed) for seed in (1, 1, 2))
    assert list(first) == ["x", "w", "bias", "z"]
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
        assert not np.array_equal(array, other[name])
    for name, array in random_operands(plain, 1).items():
        np.testing.assert_array_equal(array, first[name])
