"""One call that finds and runs: what it reads from tensors, and what it refuses."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import pytest

from convfind.checking.reference import reference_convolution
from convfind.errors import NoSolverError, ProblemError, SettingsError
from convfind.handle import Handle
from convfind.handle.posed import posed
from convfind.policy import FindKeywords, Policy
from convfind.problem import ConvProblem
from convfind.problem.options import CallOptions, ConvOptions
from convfind.runtime.tensors import DeviceTensor
from convfind.types import DataType, Layout

from .test_axes import as_device_tensor, as_numpy, as_torch, lying_last, to_host, to_last

Array = np.ndarray[Any, Any]
KINDS = pytest.mark.parametrize("given", [as_numpy, as_torch, as_device_tensor])


def draw(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def expected(x: Array, w: Array, **options: Any) -> Array:
    problem = ConvProblem.forward(x.shape, w.shape, dtype=x.dtype.name, **options)
    return reference_convolution(problem, x, w)


def problem_of(
    handle: Handle, x: object, w: object, out: object = None, **options: Unpack[CallOptions]
) -> ConvProblem:
    return posed(handle.session.device, x, w, out, options).problem


@KINDS
@pytest.mark.parametrize("x_last", [False, True])
@pytest.mark.parametrize("w_last", [False, True])
@pytest.mark.parametrize(
    ("x_shape", "w_shape"),
    [
        ((2, 4, 6), (8, 4, 3)),
        ((2, 4, 6, 5), (8, 4, 3, 3)),
        ((2, 3, 3, 3), (3, 3, 3, 3)),  # both orders have the same shape
        ((2, 1, 5, 5), (4, 1, 3, 3)),
        ((2, 4, 1, 1), (4, 4, 1, 1)),
        ((1, 2, 4, 5, 4), (3, 2, 3, 3, 3)),
    ],
)
def test_tensors_of_any_kind_and_order_in_memory(
    mock_handle: Handle,
    given: Any,
    x_last: bool,
    w_last: bool,
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
) -> None:
    x, w = draw(*x_shape), draw(*w_shape)
    tensors = (lying_last(x) if x_last else x, lying_last(w) if w_last else w)
    result = mock_handle.convolve(
        *(given(mock_handle, tensor) for tensor in tensors), policy="FAST", padding=1
    )
    assert isinstance(result, DeviceTensor) is (given is as_device_tensor)
    shown = to_host(mock_handle, result)
    np.testing.assert_allclose(shown, expected(x, w, padding=1), atol=1e-4)


def test_weights_of_the_host_follow_the_data_and_those_of_the_device_stay(
    mock_handle: Handle,
) -> None:
    x, w = draw(2, 4, 6, 5), draw(8, 4, 3, 3)
    plain = problem_of(mock_handle, x, lying_last(w))
    assert (plain.x_layout, plain.w_layout, plain.y_layout) == (Layout.NCHW,) * 3
    last = problem_of(mock_handle, lying_last(x), w)
    assert (last.x_layout, last.w_layout, last.y_layout) == (Layout.NHWC,) * 3
    mixed = problem_of(mock_handle, mock_handle.tensor(lying_last(x)), mock_handle.tensor(w))
    assert (mixed.x_layout, mixed.w_layout) == (Layout.NHWC, Layout.NCHW)
    assert last == ConvProblem.forward(x.shape, w.shape, layout="NHWC")


@pytest.mark.parametrize("shape", [(2, 4, 6, 5), (2, 1, 6, 5)])
def test_a_result_on_the_device_is_the_data_of_the_next_call(
    mock_handle: Handle, shape: tuple[int, ...]
) -> None:
    x, first, second = lying_last(draw(*shape)), draw(3, shape[1], 3, 3), draw(2, 3, 1, 1)
    problem = ConvProblem.forward(x.shape, first.shape, layout="NHWC")
    last = mock_handle.tensor(np.ascontiguousarray(to_last(x)))
    weights = mock_handle.tensor(np.ascontiguousarray(to_last(first)))
    shown_last = mock_handle.run(mock_handle.find(problem, "FAST").best, x=last, w=weights)
    assert shown_last.axes is Layout.NHWC
    result = mock_handle.convolve(shown_last, mock_handle.tensor(second), policy="FAST")
    y = to_host(mock_handle, result)
    wanted = expected(expected(x, first).astype(np.float32), second)
    shown = np.moveaxis(y, -1, 1) if result.axes is Layout.NHWC else y
    np.testing.assert_allclose(shown, wanted, atol=1e-4)


def test_options_reach_the_problem_and_the_type_is_that_of_the_tensors(
    mock_handle: Handle,
) -> None:
    x, w = draw(2, 4, 6, 5, dtype="float64"), draw(6, 2, 3, 3, dtype="float64")
    problem = problem_of(mock_handle, x, w, stride=2, groups=2, alpha=3, deterministic=True)
    assert problem == ConvProblem.forward(
        x.shape, w.shape, dtype="float64", stride=2, groups=2, alpha=3, deterministic=True
    )
    whole = np.ones((1, 2, 4, 4), np.int8), np.ones((2, 2, 3, 3), np.int8)
    assert problem_of(mock_handle, *whole).y_dtype is DataType.INT32
    out = np.empty((1, 2, 2, 2), np.float32)
    assert problem_of(mock_handle, *whole, out=out).y_dtype is DataType.FLOAT32


@pytest.mark.parametrize("out_last", [False, True])
def test_out_is_written_as_it_lies(mock_handle: Handle, out_last: bool) -> None:
    x, w = lying_last(draw(2, 3, 3, 3)), draw(3, 3, 3, 3)
    out = np.ones((2, 3, 3, 3), np.float32)
    out = lying_last(out) if out_last else out
    result = mock_handle.convolve(x, w, out=out, padding=1, beta=2, policy="FAST")
    assert result is out
    np.testing.assert_allclose(out, expected(x, w, padding=1) + 2, atol=1e-4)


def test_a_find_is_made_once_for_each_problem_and_policy(mock_handle: Handle) -> None:
    x, w = draw(2, 4, 6, 5), draw(8, 4, 3, 3)
    device: Any = mock_handle.session.device
    for _ in range(2):
        mock_handle.convolve(x, w, policy="NORMAL")
        launches = device.counters.launches
    mock_handle.convolve(x, w, policy="NORMAL")
    assert 0 < device.counters.launches - launches < 4  # a run, and no find
    limited = mock_handle.policy("NORMAL", workspace_limit=0, solvers=["mock-hungry"])
    with pytest.raises(NoSolverError):
        mock_handle.convolve(x, w, policy=limited)


def test_an_estimate_ends_with_a_find_of_the_problem(mock_handle: Handle) -> None:
    x, w = draw(2, 4, 6, 5), draw(8, 4, 3, 3)
    np.testing.assert_allclose(mock_handle.convolve(x, w, policy="FAST"), expected(x, w), atol=1e-4)
    device: Any = mock_handle.session.device
    best = mock_handle.find(ConvProblem.forward(x.shape, w.shape), "NORMAL").best
    mock_handle.prepare(best)
    compiles = device.counters.compiles
    mock_handle.convolve(x, w, policy="FAST")
    assert device.counters.compiles == compiles  # the measured best, which is ready


def test_an_empty_batch_has_an_empty_result(mock_handle: Handle) -> None:
    assert mock_handle.convolve(draw(0, 4, 6, 5), draw(8, 4, 3, 3)).shape == (0, 8, 4, 3)


@pytest.mark.parametrize(
    ("keyword", "how"),
    [
        ("layout", "taken from the tensors"),
        ("x_strides", "taken from the tensors"),
        ("time_budget", r"policy=handle.policy\(time_budget=...\)"),
        ("enforce", r"policy=handle.policy\(enforce=...\)"),
        ("strides", "stride"),
    ],
)
def test_other_keywords_are_refused_with_what_takes_them(
    mock_handle: Handle, keyword: str, how: str
) -> None:
    with pytest.raises(ProblemError, match=f"{keyword}.*{how}"):
        mock_handle.convolve(draw(2, 4, 6, 5), draw(8, 4, 3, 3), **{keyword: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "w", "how"),
    [
        (draw(2, 4), draw(8, 4), "x.*one to three spatial"),
        (draw(2, 4, 6, 5), draw(8, 4, 3), "w.*4 dimensions"),
        (draw(2, 4, 6, 5), draw(8, 4, 3, 3, dtype="float64"), "w.*float32, which x has"),
        (draw(2, 4, 6, 5), draw(8, 3, 3, 3), "channels|groups"),
        (None, draw(8, 4, 3, 3), "x"),
        ("words", draw(8, 4, 3, 3), "x"),
        (np.zeros((2, 4, 6, 5), np.complex64), draw(8, 4, 3, 3), "x.*complex64"),
    ],
)
def test_tensors_that_make_no_convolution_are_refused(
    mock_handle: Handle, x: Any, w: Any, how: str
) -> None:
    with pytest.raises(ProblemError, match=how):
        mock_handle.convolve(x, w)


def test_an_unknown_mode_is_refused(mock_handle: Handle) -> None:
    with pytest.raises(SettingsError, match="NORMAL or 1"):
        mock_handle.convolve(draw(2, 4, 6, 5), draw(8, 4, 3, 3), policy="slow")


def test_editors_are_shown_every_keyword() -> None:
    fields = set(Policy.__dataclass_fields__)
    assert set(FindKeywords.__annotations__) == fields - {"mode"} | {"enforce"}
    taken = {"dtype", "layout", "bias", "add"} | {f"{name}_layout" for name in "xw"}
    taken |= {f"{name}_strides" for name in "xwy"}
    assert set(ConvOptions.__annotations__) - set(CallOptions.__annotations__) == taken


@pytest.mark.parametrize("value", [np.zeros(3, np.float32), [1.0], None])
def test_only_tensors_of_the_device_are_copied_from_it(mock_handle: Handle, value: Any) -> None:
    with pytest.raises(ProblemError, match=r"which Handle\.tensor and runs return"):
        mock_handle.to_numpy(value)
