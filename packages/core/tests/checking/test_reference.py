"""The reference convolution against a plain loop over products, and against PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

from convfind.checking import plain_convolution
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.types import ConvMode, DataType, Direction

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]


def products(problem: ConvProblem) -> Iterator[tuple[Index, Index, Index]]:
    """Yield the positions in x, w and y of every product, straight from the definition."""
    batch, channels, *x_size = problem.x_shape
    out, y_size = problem.y_shape[1], problem.y_shape[2:]
    is_transposed = problem.mode is ConvMode.TRANSPOSE
    steps, edge = (x_size, y_size) if is_transposed else (y_size, x_size)
    per_group, out_per_group = channels // problem.groups, out // problem.groups
    for n, c, k in itertools.product(range(batch), range(channels), range(out)):
        if c // per_group != k // out_per_group:
            continue
        row = (c, k % out_per_group) if is_transposed else (k, c % per_group)
        for tap in np.ndindex(problem.filter):
            for step in np.ndindex(*steps):
                at = tuple(
                    s * stride + t * dilation - pad
                    for s, stride, t, dilation, pad in zip(
                        step, problem.stride, tap, problem.dilation, problem.padding, strict=True
                    )
                )
                if all(0 <= a < size for a, size in zip(at, edge, strict=True)):
                    x, y = (step, at) if is_transposed else (at, step)
                    yield (n, c, *x), (*row, *tap), (n, k, *y)


def looped(problem: ConvProblem, logical: dict[str, Array], out: Array | None) -> Array:
    writes = problem.direction.writes
    result = np.zeros(problem.shape(writes))
    for x, w, y in products(problem):
        at = {"x": x, "w": w, "y": y}
        factors = (logical[name][at[name]] for name in problem.direction.reads)
        result[at[writes]] += math.prod(float(factor) for factor in factors)
    result *= problem.alpha
    return result if out is None else result + problem.beta * out


def in_memory(problem: ConvProblem, name: str, logical: Array) -> Array:
    return np.moveaxis(logical, 1, -1) if problem.tensor_layout(name).channels_last else logical


def whole_numbers(problem: ConvProblem, name: str, seed: int) -> Array:
    values = np.random.default_rng(seed).integers(-8, 9, problem.shape(name))
    return values.astype(problem.tensor_dtype(name).numpy)


@settings(deadline=None)
@given(...)
def test_equals_the_loop_over_products(problem: ConvProblem) -> None:
    assume(problem.macs < 20_000)
    assume(abs(problem.alpha) < 1e9)
    assume(abs(problem.beta) < 1e9)
    writes = problem.direction.writes
    logical = {name: whole_numbers(problem, name, 1 + index) for index, name in enumerate("xwy")}
    before = logical[writes].astype(np.float64) if problem.beta else None
    first, second = (in_memory(problem, name, logical[name]) for name in problem.direction.reads)
    out = None if before is None else in_memory(problem, writes, before)
    expected = in_memory(problem, writes, looped(problem, logical, before))
    result = reference_convolution(problem, first, second, out)
    assert result.flags.c_contiguous
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-9 * (1 + abs(problem.beta)))
    absolute = {name: np.abs(values.astype(np.float64)) for name, values in logical.items()}
    positive = replace(problem, alpha=abs(problem.alpha), beta=abs(problem.beta))
    magnitude = looped(positive, absolute, None if before is None else np.abs(before))
    scale: Array = reference_magnitude(problem, first, second, out)
    np.testing.assert_allclose(scale, in_memory(problem, writes, magnitude), rtol=1e-12)


@pytest.mark.parametrize("elements", [1, 40, 1000])
@pytest.mark.parametrize("direction", Direction)
def test_size_of_the_blocks_does_not_matter(
    direction: Direction, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = ConvProblem.create(direction, (5, 4, 9, 8), (6, 2, 3, 2), padding=1, groups=2)
    arguments = [whole_numbers(problem, name, 3) for name in direction.reads]
    at_once = reference_convolution(problem, *arguments)
    monkeypatch.setattr(plain_convolution, "BLOCK_ELEMENTS", elements)
    np.testing.assert_array_equal(reference_convolution(problem, *arguments), at_once)


def test_int8_is_exact_and_wraps_like_int32() -> None:
    problem = ConvProblem.forward((1, 140_000, 1), (1, 140_000, 1), dtype="int8")
    largest = np.full((1, 140_000, 1), -128, np.int8)
    result = reference_convolution(problem, largest, largest)
    assert result.dtype == np.int32
    assert result.item() == 140_000 * 128**2 - 2**32


def test_bfloat16_tensors_are_read() -> None:
    problem = ConvProblem.forward((1, 2, 3), (1, 2, 1), dtype="bfloat16")
    ones = np.ones((1, 2, 3), DataType.BFLOAT16.numpy)
    result = reference_convolution(problem, ones, ones[..., :1])
    np.testing.assert_array_equal(result, [[[2.0, 2.0, 2.0]]])


def test_arguments_are_not_changed() -> None:
    problem = ConvProblem.forward((1, 1, 4), (1, 1, 1), dtype="float64", alpha=3, beta=2)
    tensors = [np.arange(4.0).reshape(1, 1, 4), np.full((1, 1, 1), 5.0), np.ones((1, 1, 4))]
    copies = [tensor.copy() for tensor in tensors]
    reference_convolution(problem, *tensors)
    reference_magnitude(problem, *tensors)
    for tensor, copy in zip(tensors, copies, strict=True):
        np.testing.assert_array_equal(tensor, copy)


def test_beta_needs_the_previous_contents() -> None:
    problem = ConvProblem.forward((1, 1, 4), (1, 1, 1), beta=1)
    with pytest.raises(ProblemError, match=r"out: None.*previous contents of y"):
        reference_convolution(problem, np.ones((1, 1, 4)), np.ones((1, 1, 1)))


def test_wrong_shapes_are_refused() -> None:
    problem = ConvProblem.forward((1, 2, 4, 5), (1, 2, 1, 1), layout="NHWC")
    with pytest.raises(ProblemError, match=r"x: \(1, 2, 4, 5\).*\(1, 4, 5, 2\) in layout NHWC"):
        reference_convolution(problem, np.ones((1, 2, 4, 5)), np.ones((1, 1, 1, 2)))


# -- PyTorch ------------------------------------------------------------------------------------


def torch_result(torch: Any, problem: ConvProblem, logical: dict[str, Array]) -> Array:
    is_transposed = problem.mode is ConvMode.TRANSPOSE
    tensors = {name: torch.from_numpy(values) for name, values in logical.items()}
    geometry = (
        list(problem.stride),
        list(problem.padding),
        list(problem.dilation),
        is_transposed,
        list(problem.output_padding),
        problem.groups,
    )
    if problem.direction is Direction.FORWARD:
        result = torch.ops.aten.convolution(tensors["x"], tensors["w"], None, *geometry)
    else:
        wanted = [problem.direction.writes == name for name in ("x", "w", "bias")]
        gradients = torch.ops.aten.convolution_backward(
            tensors["y"], tensors["x"], tensors["w"], None, *geometry, wanted
        )
        result = gradients[wanted.index(True)]
    array: Array = result.numpy()
    return array


def check_with_torch(problem: ConvProblem) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
    rng = np.random.default_rng(4)
    logical = {name: rng.standard_normal(problem.shape(name)) for name in "xwy"}
    arguments = [in_memory(problem, name, logical[name]) for name in problem.direction.reads]
    expected = torch_result(torch, problem, logical)
    expected = in_memory(problem, problem.direction.writes, expected)
    result = reference_convolution(problem, *arguments)
    np.testing.assert_allclose(result, expected, rtol=1e-11, atol=1e-11)


TORCH_SHAPES: list[tuple[Index, Index, dict[str, Any]]] = [
    ((2, 4, 30), (6, 4, 5), {"padding": 2}),
    ((2, 4, 30), (6, 2, 5), {"stride": 3, "dilation": 2, "groups": 2}),
    ((2, 16, 14, 14), (32, 16, 3, 3), {"padding": 1}),
    ((1, 3, 32, 33), (8, 3, 7, 7), {"padding": 3, "stride": 2}),
    ((2, 12, 9, 10), (24, 1, 3, 2), {"groups": 12, "padding": (1, 0), "stride": (1, 2)}),
    ((2, 8, 17, 17), (8, 4, 3, 3), {"groups": 2, "dilation": (2, 3), "padding": (2, 3)}),
    ((2, 16, 8, 8), (32, 16, 1, 1), {"layout": "NHWC"}),
    ((1, 4, 6, 7, 8), (6, 4, 3, 2, 3), {"padding": (1, 0, 1), "stride": (1, 2, 2)}),
    ((1, 4, 6, 7, 8), (6, 2, 2, 2, 2), {"groups": 2, "dilation": (1, 2, 3), "layout": "NDHWC"}),
    ((2, 4, 9), (4, 6, 3), {"mode": "transpose", "stride": 2, "output_padding": 1}),
    ((2, 4, 9), (4, 6, 3), {"mode": "transpose", "dilation": 3, "padding": 2, "output_padding": 2}),
    (
        (2, 4, 5, 6),
        (4, 3, 3, 3),
        {
            "mode": "transpose",
            "stride": (2, 3),
            "dilation": (5, 4),
            "padding": (3, 1),
            "output_padding": (4, 3),
        },
    ),
    ((2, 4, 9, 8), (4, 6, 3, 3), {"mode": "transpose", "stride": 2, "padding": 1}),
    (
        (2, 6, 5, 7),
        (6, 4, 4, 3),
        {"mode": "transpose", "stride": (3, 2), "groups": 3, "output_padding": (2, 1)},
    ),
    ((1, 4, 3, 4, 5), (4, 2, 2, 3, 2), {"mode": "transpose", "groups": 2, "dilation": (1, 2, 1)}),
]


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(("x", "w", "options"), TORCH_SHAPES)
def test_equals_torch(direction: Direction, x: Index, w: Index, options: dict[str, Any]) -> None:
    check_with_torch(ConvProblem.create(direction, x, w, **options))


@pytest.mark.slow
@settings(deadline=None)
@given(...)
def test_equals_torch_on_any_shape(problem: ConvProblem) -> None:
    assume(problem.padding == problem.padding_end)
    assume(problem.dtype.is_float)
    check_with_torch(replace(problem, alpha=1.0, beta=0.0))
