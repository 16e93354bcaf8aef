"""In which order axes come and go: N, C, spatial or the layout's, told by shape and strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convfind.checking.reference import reference_convolution
from convfind.errors import ProblemError
from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.runtime.tensors import DeviceTensor
from convfind.types import Direction, Layout

Array = np.ndarray[Any, Any]
Given = Callable[[Handle, Array], Any]


def to_last(array: Array) -> Array:
    """N, C, spatial to N, spatial, C: a view."""
    return np.moveaxis(array, 1, -1)


def to_first(array: Array) -> Array:
    """N, spatial, C to N, C, spatial: a view."""
    return np.moveaxis(array, -1, 1)


def lying_last(array: Array) -> Array:
    """The same array with channels last in memory."""
    return to_first(np.ascontiguousarray(to_last(array)))


def as_numpy(_: Handle, array: Array) -> Array:
    return array


def as_torch(_: Handle, array: Array) -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return torch.from_numpy(array)


def as_device_tensor(handle: Handle, array: Array) -> DeviceTensor:
    return handle.tensor(array)


def to_host(handle: Handle, result: Any) -> Array:
    array: Array = handle.to_numpy(result) if isinstance(result, DeviceTensor) else result
    return array


KINDS = pytest.mark.parametrize("given", [as_numpy, as_torch, as_device_tensor])
RANKS = pytest.mark.parametrize("rank", [1, 2, 3])
DIRECTIONS = pytest.mark.parametrize("direction", list(Direction))


def last(
    direction: Direction | str, rank: int, channels: int, filters: int, size: int
) -> ConvProblem:
    """A channels-last problem whose result is as large as its image."""
    return ConvProblem.create(
        direction,
        (2, channels, *(size,) * rank),
        (filters, channels, *(3,) * rank),
        padding=1,
        layout=Layout.of(rank, channels_last=True),
    )


def square(direction: Direction | str, rank: int) -> ConvProblem:
    """One in which both orders of every tensor have the same shape."""
    return last(direction, rank, 3, 3, 3)


def best_of(handle: Handle, problem: ConvProblem) -> Solution:
    return handle.find(problem, mode="FAST").best


def tensors_of(problem: ConvProblem) -> dict[str, Array]:
    """What it reads, in N, C, spatial order."""
    generator = np.random.default_rng(11)
    return {
        name: generator.standard_normal(problem.shape(name), np.float32)
        for name in problem.direction.reads
    }


def right(problem: ConvProblem, tensors: dict[str, Array]) -> Array:
    """The right result, in N, C, spatial order."""
    return to_first(reference_convolution(problem, *map(to_last, tensors.values())))


@KINDS
@RANKS
@DIRECTIONS
def test_strides_tell_that_channels_come_first_in_the_shape_and_last_in_memory(
    mock_handle: Handle, direction: Direction, rank: int, given: Given
) -> None:
    problem = square(direction, rank)
    tensors = tensors_of(problem)
    shown = {name: given(mock_handle, lying_last(array)) for name, array in tensors.items()}
    result = to_host(mock_handle, mock_handle.run(best_of(mock_handle, problem), **shown))
    np.testing.assert_allclose(result, right(problem, tensors), atol=1e-4)
    assert to_last(result).flags.c_contiguous


@KINDS
@RANKS
@DIRECTIONS
def test_what_could_be_in_either_order_is_refused(
    mock_handle: Handle, direction: Direction, rank: int, given: Given
) -> None:
    problem = square(direction, rank)
    best = best_of(mock_handle, problem)
    told = {
        name: given(mock_handle, lying_last(array)) for name, array in tensors_of(problem).items()
    }
    for name, array in tensors_of(problem).items():
        with pytest.raises(ProblemError, match=rf"{name}: \(.*transpose\(0, {rank + 1}, 1"):
            mock_handle.run(best, **{**told, name: given(mock_handle, array)})
    out = given(mock_handle, np.zeros(problem.shape(problem.direction.writes), np.float32))
    with pytest.raises(ProblemError, match=rf"{problem.direction.writes}: \(.*channels_last"):
        mock_handle.run(best, **told, out=out)


@RANKS
@DIRECTIONS
@pytest.mark.parametrize("copied", [np.ascontiguousarray, lying_last])
@pytest.mark.parametrize("shown", [np.asarray, to_last])
def test_the_shape_tells_the_order_whatever_the_memory(
    mock_handle: Handle,
    direction: Direction,
    rank: int,
    copied: Callable[[Array], Array],
    shown: Callable[[Array], Array],
) -> None:
    problem = last(direction, rank, 4, 6, 5)
    tensors = tensors_of(problem)
    given = {name: shown(copied(array)) for name, array in tensors.items()}
    best = best_of(mock_handle, problem)
    expected = shown(right(problem, tensors))
    np.testing.assert_allclose(mock_handle.run(best, **given), expected, atol=1e-4)
    out = shown(copied(np.full(problem.shape(direction.writes), np.nan, np.float32)))
    assert mock_handle.run(best, **given, out=out) is out
    np.testing.assert_allclose(out, expected, atol=1e-4)


@DIRECTIONS
def test_parts_of_larger_arrays_are_told_by_their_strides(
    mock_handle: Handle, direction: Direction
) -> None:
    problem = square(direction, 2)
    tensors = tensors_of(problem)
    given = {}
    for name, array in tensors.items():
        whole = lying_last(np.zeros((*array.shape[:2], 7, 9), np.float32))
        given[name] = whole[:, :, 1:4, 7:1:-2]
        given[name][...] = array
    best = best_of(mock_handle, problem)
    expected = right(problem, tensors)
    np.testing.assert_allclose(mock_handle.run(best, **given), expected, atol=1e-4)
    out = lying_last(np.zeros((*expected.shape[:2], 6, 3), np.float32))[:, :, ::2]
    mock_handle.run(best, **given, out=out)
    np.testing.assert_allclose(out, expected, atol=1e-4)


def test_of_a_channels_first_problem_every_tensor_is_in_that_order(mock_handle: Handle) -> None:
    problem = ConvProblem.forward((2, 3, 3, 3), (3, 3, 3, 3), padding=1)
    tensors = tensors_of(problem)
    expected = reference_convolution(problem, *tensors.values())
    best = best_of(mock_handle, problem)
    for copied in (np.asarray, lying_last):
        given = {name: copied(array) for name, array in tensors.items()}
        np.testing.assert_allclose(mock_handle.run(best, **given), expected, atol=1e-4)


def test_a_result_on_the_device_knows_the_order_of_its_axes(mock_handle: Handle) -> None:
    first, second = last("forward", 2, 5, 3, 3), square("forward", 2)
    x, w = (np.ascontiguousarray(to_last(array)) for array in tensors_of(first).values())
    between = mock_handle.run(
        best_of(mock_handle, first), x=mock_handle.tensor(x), w=mock_handle.tensor(w)
    )
    assert between.shape == (2, 3, 3, 3)
    assert between.axes == "NHWC"
    filters = tensors_of(second)["w"]
    result = mock_handle.run(
        best_of(mock_handle, second), x=between, w=mock_handle.tensor(lying_last(filters))
    )
    assert result.axes == "NHWC"
    expected = reference_convolution(second, mock_handle.to_numpy(between), to_last(filters))
    np.testing.assert_allclose(mock_handle.to_numpy(result), expected, atol=1e-4)
    plain = ConvProblem.forward((2, 3, 3, 3), (3, 3, 3, 3), padding=1)
    with pytest.raises(ProblemError, match=r"x: \(2, 3, 3, 3, 'NHWC'\).*NCHW"):
        mock_handle.run(best_of(mock_handle, plain), x=between, w=mock_handle.tensor(filters))


def test_one_element_in_every_axis_but_the_first_is_no_question(mock_handle: Handle) -> None:
    problem = ConvProblem.forward((4, 1, 1, 1), (1, 1, 1, 1), layout="NHWC")
    x, w = np.arange(4, dtype=np.float32).reshape(4, 1, 1, 1), np.full((1, 1, 1, 1), 2, np.float32)
    result = mock_handle.run(best_of(mock_handle, problem), x=x, w=w)
    assert result.ravel().tolist() == [0, 2, 4, 6]


def test_bound_weights_are_told_like_others(mock_handle: Handle) -> None:
    problem = square("forward", 2)
    tensors = tensors_of(problem)
    best = best_of(mock_handle, problem)
    with pytest.raises(ProblemError, match=r"w: \(3, 3, 3, 3\)"):
        mock_handle.bind(best, w=tensors["w"])
    bound = mock_handle.bind(best, w=lying_last(tensors["w"]))
    result = bound.run(x=lying_last(tensors["x"]))
    np.testing.assert_allclose(result, right(problem, tensors), atol=1e-4)
