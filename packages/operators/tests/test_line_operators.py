"""Reductions, softmax and norms are right: along any axes, in both layouts and all types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.device.target import DeviceKind, Target
from convfind.problem.activation import Activation
from convfind.runtime.backend import Device
from convfind_operators.element_type import ElementType
from convfind_operators.normalization import GroupNormProblem, LayerNormProblem, RMSNormProblem
from convfind_operators.reduction import ReductionFunction, ReductionProblem
from convfind_operators.shared_channel_groups import SharedChannelGroups
from convfind_operators.softmax import SoftmaxProblem
from convfind_operators.solver_list import solver_of

torch = pytest.importorskip("torch")

GPU = Target(
    *("cuda", "a gpu", DeviceKind.GPU, "NVIDIA", "CUDA", "sm_90", 132, "1"),
    features=frozenset({"fp64"}),
    max_work_group=1024,
)
Check = Callable[..., None]
FLOATS = [ElementType.FLOAT32, ElementType.FLOAT16, ElementType.BFLOAT16]

layouts = pytest.mark.parametrize("channels_last", [False, True], ids=["first", "last"])


@pytest.mark.parametrize("function", ReductionFunction)
def test_reductions_are_right(check: Check, function: ReductionFunction) -> None:
    check(ReductionProblem(x=(3, 5, 7, 21), function=function, axes=(2, 3)))
    check(ReductionProblem(x=(3, 21, 7, 4), function=function, axes=(2, 3), channels_last=True))
    check(ReductionProblem(x=(3, 21, 7, 4), function=function, axes=(0, 2), keepdims=False))


@pytest.mark.parametrize("function", ReductionFunction)
@pytest.mark.parametrize("dtype", FLOATS)
def test_few_neighbouring_lines_are_right(
    check: Check, function: ReductionFunction, dtype: ElementType
) -> None:
    # Whole loads of 8, of 4, with a rest, and none; along one axis and three; more than one strip.
    for shape, axes in (
        ((2, 24, 9, 7), (2, 3)),
        ((1, 20, 17), (2,)),
        ((3, 130, 5, 4), (0, 2, 3)),
        ((2, 7, 5, 5, 4), (0, 2, 4)),
        ((1, 300, 4, 4), (2, 3)),
    ):
        check(
            ReductionProblem(
                x=shape, function=function, axes=axes, dtype=dtype, channels_last=True
            ),
            not_finite=len(shape) == 3,
        )


@pytest.mark.parametrize("function", ReductionFunction)
def test_few_long_lines_are_reduced_in_slabs(check: Check, function: ReductionFunction) -> None:
    check(ReductionProblem(x=(3, 30001), function=function, axes=(0, 1)), not_finite=False)
    check(ReductionProblem(x=(9001, 3), function=function, axes=(0,)))


@pytest.mark.parametrize("dtype", [ElementType.FLOAT16, ElementType.INT8, ElementType.UINT64])
def test_slabs_keep_what_their_elements_are_computed_in(check: Check, dtype: ElementType) -> None:
    for shape, axes in (((90001,), (0,)), ((2, 5000, 21), (1,)), ((2, 9000, 4, 3), (1, 2))):
        check(ReductionProblem(x=shape, function=ReductionFunction.SUM, axes=axes, dtype=dtype))


def test_a_limit_of_the_workspace_is_kept(convfind_device: Device) -> None:
    target = convfind_device.target
    problem = ReductionProblem(x=(400001,), function=ReductionFunction.SUM, axes=(0,))
    solver = solver_of(problem, target)
    size = solver.workspace_size(problem, target)
    assert (size > 0) == (target.compute_units > 1)
    assert solver.workspace_size(problem, target, size) == size
    assert len(solver.solution(problem, target, workspace_limit=0).steps) == 1


@pytest.mark.parametrize("dtype", ElementType)
def test_reductions_of_every_type_are_right(check: Check, dtype: ElementType) -> None:
    largest = ReductionFunction.MAX
    check(ReductionProblem(x=(3, 21, 7), function=largest, axes=(1,), dtype=dtype))
    if dtype is not ElementType.BOOL:
        every = (0, 1, 2)
        check(
            ReductionProblem(x=(3, 21, 7), function=ReductionFunction.SUM, axes=every, dtype=dtype)
        )


def test_no_axis_or_one_of_one_element_may_be_reduced(check: Check) -> None:
    check(ReductionProblem(x=(3, 1, 7), function=ReductionFunction.MEAN, axes=(1,)))
    check(ReductionProblem(x=(3, 4, 7), function=ReductionFunction.L1, axes=()))
    check(ReductionProblem(x=(1, 1), function=ReductionFunction.SUM, axes=(0, 1)))


@layouts
@pytest.mark.parametrize("log", [False, True])
def test_softmax_is_right(check: Check, log: bool, channels_last: bool) -> None:
    for axis in (0, 1, 3):
        check(SoftmaxProblem(x=(3, 21, 7, 4), axis=axis, log=log, channels_last=channels_last))


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_of_classes_is_right(check: Check, dtype: ElementType) -> None:
    check(SoftmaxProblem(x=(3, 1000), dtype=dtype))


@pytest.mark.parametrize("length", [1, 5, 16, 64, 197, 4096, 4100])
def test_lines_of_any_length_are_right(check: Check, length: int) -> None:
    check(SoftmaxProblem(x=(7, length)))
    check(LayerNormProblem(x=(7, length), scale=(length,), bias=(1,)))
    check(ReductionProblem(x=(7, length), function=ReductionFunction.MEAN, axes=(1,)))


def test_many_short_lines_are_right(check: Check) -> None:
    check(SoftmaxProblem(x=(2000, 12)))
    check(RMSNormProblem(x=(2000, 12), scale=(12,), dtype=ElementType.FLOAT16))


def test_softmax_of_large_numbers_does_not_overflow(check: Check) -> None:
    x = np.linspace(-3e38, 3e38, 40, dtype=np.float32).reshape(2, 20)
    for log in (False, True):
        check(SoftmaxProblem(x=(2, 20), log=log), inputs={"x": x})


@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norms_are_right(check: Check, dtype: ElementType) -> None:
    check(LayerNormProblem(x=(3, 5, 37), scale=(37,), bias=(37,), dtype=dtype))
    check(LayerNormProblem(x=(3, 5, 37), axis=1, scale=(5, 1), dtype=dtype))
    check(LayerNormProblem(x=(3, 5, 37), axis=1, scale=(37,), bias=(5, 37), dtype=dtype))
    check(LayerNormProblem(x=(3, 5, 37), axis=1, dtype=dtype))
    check(RMSNormProblem(x=(3, 5, 37), scale=(37,), dtype=dtype))


@layouts
@pytest.mark.parametrize("groups", [1, 3, 12])
def test_group_norms_are_right(check: Check, groups: int, channels_last: bool) -> None:
    check(GroupNormProblem(x=(3, 12, 7, 11), groups=groups, channels_last=channels_last))


@pytest.mark.parametrize(
    ("x", "groups", "dtype"),
    [
        ((2, 320, 8, 9), 32, "float16"),
        ((1, 320, 40, 33), 32, "bfloat16"),
        ((3, 960, 5, 7), 32, "float16"),
        ((2, 60, 16, 17), 2, "bfloat16"),
        ((2, 40, 37, 60), 4, "float32"),
        ((2, 12, 13, 10, 130), 3, "float32"),
        ((1, 24, 64, 257), 24, "float32"),
        ((2, 8, 300, 300), 2, "float16"),
    ],
    ids=str,
)
def test_group_norms_that_work_groups_share_are_right(
    check: Check, x: tuple[int, ...], groups: int, dtype: str
) -> None:
    problem = GroupNormProblem(x=x, groups=groups, dtype=ElementType(dtype), channels_last=True)
    shared = SharedChannelGroups.of(problem, GPU)
    assert shared is not None
    pieces, results = shared.launches(replace(GPU, compute_units=4, identity=""))
    assert pieces.global_size[0] <= results.global_size[0]
    check(problem)


@layouts
@pytest.mark.parametrize("activation", [Activation("silu"), Activation("leaky", 0.1)], ids=str)
@pytest.mark.parametrize(
    ("x", "groups", "dtype"),
    [
        ((2, 320, 8, 9), 32, ElementType.FLOAT16),
        ((2, 12, 13, 10), 3, ElementType.FLOAT32),
        ((3, 24, 5, 7), 24, ElementType.BFLOAT16),
    ],
    ids=str,
)
def test_group_norms_that_end_with_an_activation_are_right(
    check: Check,
    x: tuple[int, ...],
    groups: int,
    dtype: ElementType,
    activation: Activation,
    channels_last: bool,
) -> None:
    how: dict[str, Any] = {"dtype": dtype, "channels_last": channels_last}
    check(GroupNormProblem(x=x, groups=groups, activation=activation, **how))


@layouts
def test_group_norms_of_one_channel_run_along_it(check: Check, channels_last: bool) -> None:
    check(GroupNormProblem(x=(3, 1, 7, 11), groups=1, channels_last=channels_last))


@layouts
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("channels", "height"), [(32, 7), (16, 8), (24, 9)])
def test_group_norms_of_neighbours_in_fours_and_eights_are_right(
    check: Check, dtype: str, channels: int, height: int, channels_last: bool
) -> None:
    how: dict[str, Any] = {"groups": 2, "dtype": dtype, "channels_last": channels_last}
    check(GroupNormProblem(x=(2, channels, height, 96), **how))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", [40, 136, 1003, 5008])
def test_norms_and_softmax_in_eights_are_right(
    check: Check, dtype: ElementType, length: int
) -> None:
    row = (length,)
    check(LayerNormProblem(x=(3, length), scale=row, bias=row, dtype=dtype))
    check(LayerNormProblem(x=(3, length), scale=(1,), bias=row, dtype=dtype))
    check(LayerNormProblem(x=row, scale=row, dtype=dtype))
    check(SoftmaxProblem(x=(3, length), dtype=dtype))


@layouts
def test_norms_of_long_lines_are_right(check: Check, channels_last: bool) -> None:
    check(GroupNormProblem(x=(1, 8, 64, 65), groups=2, channels_last=channels_last))
    check(LayerNormProblem(x=(20000,), scale=(20000,)))


@pytest.mark.parametrize("at", [0, 5000])
def test_an_element_far_from_all_others_leaves_norms_exact(check: Check, at: int) -> None:
    x = np.random.default_rng(6).uniform(-1, 1, (2, 8, 64, 33)).astype(np.float32)
    x += 1000
    x.flat[at] = 1e6
    ones = np.ones(8, np.float32)
    for channels_last in (False, True):
        norm = GroupNormProblem(x=x.shape, groups=1, channels_last=channels_last)
        check(norm, inputs={"x": x, "scale": ones, "bias": ones}, not_finite=False)


def test_references_are_pytorch_s() -> None:
    rng = np.random.default_rng(4)
    x, scale, bias = rng.standard_normal((2, 6, 5)), rng.standard_normal(5), rng.standard_normal(5)
    data = torch.from_numpy(x)
    norm = LayerNormProblem(x=x.shape, scale=(5,), bias=(5,))
    np.testing.assert_allclose(
        norm.reference({"x": x, "scale": scale, "bias": bias})["y"],
        torch.nn.functional.layer_norm(data, (5,), torch.tensor(scale), torch.tensor(bias)),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        RMSNormProblem(x=x.shape, scale=(5,)).reference({"x": x, "scale": scale})["y"],
        torch.nn.functional.rms_norm(data, (5,), torch.tensor(scale), 1e-5),
        rtol=1e-9,
    )
    ones = np.ones(6)
    np.testing.assert_allclose(
        GroupNormProblem(x=x.shape, groups=3).reference({"x": x, "scale": ones, "bias": ones})["y"],
        torch.nn.functional.group_norm(data, 3, torch.tensor(ones), torch.tensor(ones)),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        SoftmaxProblem(x=x.shape, axis=1, log=True).reference({"x": x})["y"],
        torch.log_softmax(data, 1),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        ReductionProblem(
            x=x.shape, function=ReductionFunction.LOG_SUM_EXP, axes=(0, 2), keepdims=False
        ).reference({"x": x})["y"],
        torch.logsumexp(data, (0, 2)),
        rtol=1e-9,
    )
