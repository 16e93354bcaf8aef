"""Elements are moved where they belong, bit by bit, in all types and layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices_for_tests import as_written

from convfind.checking.borders import PadMode
from convfind.device.target import DeviceKind
from convfind.errors import ProblemError
from convfind.runtime.backend import Device
from convfind_operators.element_type import ElementType
from convfind_operators.joining import ConcatProblem, SplitProblem
from convfind_operators.pad import PadProblem
from convfind_operators.rearrangement import (
    ChannelShuffleProblem,
    CopyProblem,
    ExpandProblem,
    SliceProblem,
    TileProblem,
    TransposeProblem,
)
from convfind_operators.testing import assert_operator

Check = Callable[..., None]

layouts = pytest.mark.parametrize("channels_last", [False, True], ids=["first", "last"])


@layouts
@pytest.mark.parametrize("dtype", ElementType)
def test_copies_into_the_other_layout_are_right(
    check: Check, dtype: ElementType, channels_last: bool
) -> None:
    last = {"channels_last": channels_last, "y_channels_last": not channels_last}
    # The last is one row of neighbours, of which cores take parts.
    for shape in ((2, 3, 7, 11), (1, 35, 5, 37), (2, 64, 16, 16), (1, 3, 123, 157)):
        check(CopyProblem(x=shape, dtype=dtype, **last))  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_transposes_are_right(check: Check, order: tuple[int, ...]) -> None:
    check(TransposeProblem(x=(33, 4, 50), order=order))
    check(TransposeProblem(x=(33, 4, 50), order=order, strides={"x": (400, 70, 1)}))


@pytest.mark.slow
@pytest.mark.parametrize("group", [1, 8, 32, 64, 128])
@pytest.mark.parametrize("dtype", [ElementType.INT32, ElementType.INT16])
def test_transposes_of_groups_of_any_size_are_right(
    convfind_device: Device, dtype: ElementType, group: int
) -> None:
    if convfind_device.target.max_work_group < group:
        pytest.skip(f"no groups of {group}")
    target = replace(
        convfind_device.target, kind=DeviceKind.GPU, max_work_group=group, compute_units=1
    )
    device = as_written(convfind_device)
    for shape in ((3, 70, 66), (1, 200, 180)):
        problem = TransposeProblem(x=shape, order=(0, 2, 1), dtype=dtype)
        assert_operator(problem, device, target=target)


@layouts
def test_channel_shuffles_are_right(check: Check, channels_last: bool) -> None:
    check(ChannelShuffleProblem(x=(2, 12, 7, 11), groups=3, channels_last=channels_last))
    check(ChannelShuffleProblem(x=(2, 76, 5, 7), groups=2, channels_last=channels_last))


def test_repetitions_are_right(check: Check) -> None:
    check(ExpandProblem(x=(3, 1, 11), shape=(2, 3, 7, 11)))
    check(ExpandProblem(x=(), shape=(2, 35)))
    check(TileProblem(x=(3, 2, 11), repeats=(2, 3, 2)))


@layouts
def test_slices_are_right(check: Check, channels_last: bool) -> None:
    begin, count, step = (2, 3, 10), (2, 5, 11), (-1, 3, -1)
    check(
        SliceProblem(
            x=(3, 20, 11), begin=begin, count=count, step=step, channels_last=channels_last
        )
    )


@layouts
@pytest.mark.parametrize("mode", PadMode)
def test_paddings_are_right(check: Check, mode: PadMode, channels_last: bool) -> None:
    how = {"mode": mode, "value": 1.5, "channels_last": channels_last}
    check(PadProblem(x=(3, 20, 11), begin=(0, 3, 2), end=(0, -2, 4), **how))  # type: ignore[arg-type]
    check(PadProblem(x=(1, 2, 3), begin=(1, 1, 2), end=(0, 0, 7), **how))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "dtype", [ElementType.FLOAT32, ElementType.FLOAT16, ElementType.BFLOAT16, ElementType.INT8]
)
def test_padding_around_neighbours_in_fours_and_eights_is_right(
    check: Check, dtype: ElementType
) -> None:
    image: dict[str, Any] = {"channels_last": True, "dtype": dtype, "value": 3.0}
    for channels in (4, 12, 16):
        x = (2, channels, 7, 9)
        check(PadProblem(x=x, begin=(0, 0, 1, 2), end=(0, 0, 2, 1), **image))
        check(PadProblem(x=x, begin=(1, 4, -1, 2), end=(0, 8, 2, -3), **image))
    for begin, end in ((8, 16), (-8, 12), (4, -20), (3, 5)):
        check(PadProblem(x=(3, 20, 24), begin=(0, 3, begin), end=(0, -2, end), dtype=dtype))
    check(PadProblem(x=(40, 300, 64), begin=(0, 1, 8), end=(0, 2, 8), dtype=dtype))


@layouts
@pytest.mark.parametrize("dtype", [ElementType.FLOAT32, ElementType.FLOAT16, ElementType.INT64])
def test_concatenations_and_splits_are_right(
    check: Check, dtype: ElementType, channels_last: bool
) -> None:
    shapes = ((2, 3, 7), (2, 1, 7), (2, 4, 7))
    check(ConcatProblem(shapes=shapes, axis=1, dtype=dtype, channels_last=channels_last))
    check(
        SplitProblem(x=(2, 9, 7), axis=1, sizes=(2, 3, 4), dtype=dtype, channels_last=channels_last)
    )


def test_a_part_of_a_concatenation_may_lie_in_it_already(check: Check) -> None:
    check(CopyProblem(x=(2, 5, 7), strides={"y": (90, 9, 1)}))


def test_tensors_without_elements_need_no_step(check: Check) -> None:
    check(CopyProblem(x=(2, 0, 7)))
    check(ConcatProblem(shapes=((2, 0), (2, 3)), axis=1))


def test_pieces_without_elements_take_nothing_from_the_others(check: Check) -> None:
    check(SplitProblem(x=(3, 5), axis=1, sizes=(5, 0)))
    check(ConcatProblem(shapes=((3, 0), (3, 5)), axis=1))


def test_more_axes_than_kernels_know_are_met_in_several_launches(check: Check) -> None:
    check(TileProblem(x=(2, 3, 2, 3), repeats=(2, 3, 2, 2)))


def test_what_cannot_be_moved_is_refused() -> None:
    with pytest.raises(ProblemError, match="an order of the axes of"):
        TransposeProblem(x=(2, 3), order=(0, 0))
    with pytest.raises(ProblemError, match="shapes that differ along axis 1"):
        ConcatProblem(shapes=((2, 3), (3, 3)), axis=1)
    with pytest.raises(ProblemError, match="a part of"):
        SliceProblem(x=(4,), begin=(2,), count=(3,), step=(1,))
    with pytest.raises(ProblemError, match="a finite number among int8"):
        PadProblem(x=(4,), begin=(1,), end=(0,), value=float("nan"), dtype=ElementType.INT8)


def test_padding_decomposes_into_as_many_moves_as_it_has_regions() -> None:
    problem = PadProblem(x=(2, 5), begin=(0, 1), end=(0, 2))
    assert [walk.sizes for walk in problem.moves] == [(2, 1), (2, 5), (2, 2)]
    assert np.array_equal(
        problem.reference({"x": np.ones((2, 5))})["y"][0], [0, 1, 1, 1, 1, 1, 0, 0]
    )
