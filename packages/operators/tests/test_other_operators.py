"""Products, look-ups, resizing, local response norms, places and running sums are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.device.target import DeviceKind
from convfind.errors import ProblemError
from convfind.runtime.backend import Device
from convfind.solver.recipe import Launch
from convfind_operators import (
    ArgReductionProblem,
    CumulativeProductProblem,
    CumulativeSumProblem,
    ElementType,
    GatherElementsProblem,
    GatherProblem,
    LocalResponseNormProblem,
    MatMulProblem,
    ResizeProblem,
    ScatterElementsProblem,
    TopKProblem,
    problem_types,
)
from convfind_operators.resize import Coordinates, Interpolation, Rounding
from convfind_operators.scatter import Combine
from convfind_operators.solver_list import solver_of

torch = pytest.importorskip("torch")

Check = Callable[..., None]

layouts = pytest.mark.parametrize("channels_last", [False, True], ids=["first", "last"])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((7, 21), (21, 37)),
        ((2, 1, 70, 33), (3, 33, 65)),
        ((33,), (3, 33, 65)),
        ((4, 33, 5), (5,)),
        ((5,), (5,)),
    ],
)
def test_products_are_right(check: Check, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check(MatMulProblem(a=a, b=b))


def test_products_of_other_types_and_of_transposed_matrices_are_right(check: Check) -> None:
    for dtype in (ElementType.FLOAT16, ElementType.BFLOAT16, ElementType.INT32):
        check(MatMulProblem(a=(2, 9, 17), b=(17, 40), dtype=dtype))
    for m in (5, 70):  # few rows read a transposed b, many a copy of it
        strides = {"b": (680, 1, 17), "y": (50 * m, 50, 1)}
        check(MatMulProblem(a=(2, m, 17), b=(2, 17, 40), strides=strides))
        strides["a"] = (m * 17, 1, m)
        check(MatMulProblem(a=(2, m, 17), b=(2, 17, 40), strides=strides, alpha=-0.375))


def test_slices_are_chosen_by_number(check: Check) -> None:
    check(GatherProblem(x=(7, 5, 9), indices=(3, 4), axis=1))
    check(GatherProblem(x=(100, 64), indices=(), axis=1, dtype=ElementType.INT64))
    index = ElementType.INT32
    check(GatherProblem(x=(100, 64), indices=(3, 17), index_dtype=index, dtype=ElementType.FLOAT16))
    check(GatherElementsProblem(x=(7, 5, 9), indices=(7, 11, 4), axis=1))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("largest", [False, True])
def test_places_are_right_of_equal_elements_too(check: Check, largest: bool, last: bool) -> None:
    check(ArgReductionProblem(x=(3, 21, 7), axis=1, largest=largest, last=last))
    equal: dict[str, Any] = {"axis": 1, "largest": largest, "last": last, "keepdims": False}
    check(ArgReductionProblem(x=(3, 91, 7), dtype=ElementType.INT8, **equal))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_are_right(check: Check, exclusive: bool, reverse: bool) -> None:
    how: dict[str, Any] = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
    check(CumulativeSumProblem(x=(3, 21, 7), **how))
    check(CumulativeSumProblem(x=(3, 21), dtype=ElementType.INT64, **how))
    check(CumulativeProductProblem(x=(3, 11, 7), **how))


@pytest.mark.parametrize("combine", Combine)
def test_elements_are_updated_in_the_order_of_their_indices(check: Check, combine: Combine) -> None:
    check(ScatterElementsProblem(x=(4, 9, 7), indices=(3, 21, 7), axis=1, combine=combine))


def test_updates_of_other_types_are_right_and_those_out_of_range_do_nothing(check: Check) -> None:
    indices = np.asarray([0, -1, 5, 99, -99, 0], np.int32)
    for dtype in (ElementType.BOOL, ElementType.UINT64, ElementType.BFLOAT16):
        problem = ScatterElementsProblem(
            x=(11,), indices=(6,), dtype=dtype, index_dtype=ElementType.INT32
        )
        drawn = problem.draw(np.random.default_rng(3))
        check(problem, inputs={**drawn, "indices": indices})


@pytest.mark.parametrize("largest", [False, True])
def test_the_first_in_order_are_found_with_their_places(check: Check, largest: bool) -> None:
    check(TopKProblem(x=(3, 21, 7), count=5, axis=1, largest=largest))
    check(TopKProblem(x=(3, 91), count=91, largest=largest, dtype=ElementType.INT8))
    strides = {"x": (100, 2), "y": (1, 3), "indices": (40, 5)}
    check(TopKProblem(x=(3, 21), count=4, largest=largest, strides=strides))


@layouts
@pytest.mark.parametrize("channels", [3, 37])
def test_local_response_norms_are_right(check: Check, channels: int, channels_last: bool) -> None:
    how: dict[str, Any] = {"alpha": 0.3, "channels_last": channels_last}
    check(LocalResponseNormProblem(x=(2, channels, 5, 7), size=5, **how))
    check(LocalResponseNormProblem(x=(2, channels, 5, 7), size=4, dtype=ElementType.FLOAT16, **how))


@layouts
@pytest.mark.parametrize("interpolation", Interpolation)
@pytest.mark.parametrize("coordinates", [one for one in Coordinates if one != Coordinates.CROP])
def test_resizing_is_right(
    check: Check, interpolation: Interpolation, coordinates: Coordinates, channels_last: bool
) -> None:
    how: dict[str, Any] = {"interpolation": interpolation, "coordinates": coordinates}
    how["channels_last"] = channels_last
    check(ResizeProblem(x=(2, 19, 5, 7), sizes=(2, 19, 9, 12), **how))


@pytest.mark.parametrize("interpolation", Interpolation)
def test_crops_are_resized_and_filled_up(check: Check, interpolation: Interpolation) -> None:
    how: dict[str, Any] = {"region": ((0.2, 0.9), (-0.1, 1.2)), "outside": 2.0}
    how["coordinates"] = Coordinates.CROP
    check(ResizeProblem(x=(19, 7), sizes=(12, 12), interpolation=interpolation, **how))


@layouts
@pytest.mark.parametrize("interpolation", Interpolation)
@pytest.mark.parametrize("width", [1, 3, 17, 150])
def test_images_are_doubled_right(
    check: Check, interpolation: Interpolation, width: int, channels_last: bool
) -> None:
    for coordinates in (Coordinates.HALF_PIXEL, Coordinates.ASYMMETRIC):
        how: dict[str, Any] = {"interpolation": interpolation, "coordinates": coordinates}
        how["channels_last"] = channels_last
        check(ResizeProblem(x=(2, 4, 3, width), sizes=(2, 4, 6, 2 * width), **how))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [ElementType.FLOAT16, ElementType.BFLOAT16])
def test_wide_images_of_16_bits_are_resized_right(
    check: Check, dtype: ElementType, channels_last: bool
) -> None:
    how: dict[str, Any] = {"interpolation": Interpolation.LINEAR, "dtype": dtype}
    how["channels_last"] = channels_last
    for width in (100, 300, 1000):
        check(ResizeProblem(x=(1, 2, 3, 410), sizes=(1, 2, 5, width), **how))


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (3, 2), (9, 8), (200, 8)])
def test_work_items_of_gpus_load_no_more_rows_than_they_have(
    convfind_device: Device, rows: int, parts: int
) -> None:
    target = replace(convfind_device.target, kind=DeviceKind.GPU, compute_units=1)
    how: dict[str, Any] = {"interpolation": Interpolation.LINEAR}
    problem = ResizeProblem(x=(rows, 150, 150), sizes=(rows, 301, 301), **how)
    (launch,) = solver_of(problem, target).steps(problem, target)
    assert isinstance(launch, Launch)
    assert dict(launch.kernel.program.defines)["PARTS"] == parts


def test_other_ways_to_resize_are_right(check: Check) -> None:
    for rounding in Rounding:
        check(ResizeProblem(x=(3, 40), sizes=(3, 17), rounding=rounding, dtype=ElementType.UINT8))
    for interpolation in (Interpolation.LINEAR, Interpolation.CUBIC):
        how: dict[str, Any] = {"interpolation": interpolation}
        check(ResizeProblem(x=(3, 40), sizes=(3, 17), antialias=True, **how))
        check(ResizeProblem(x=(3, 40), sizes=(3, 57), exclude_outside=True, **how))
        check(ResizeProblem(x=(1, 2, 3, 4, 5), sizes=(1, 2, 6, 8, 10), **how))
        check(ResizeProblem(x=(1, 2, 3), sizes=(1, 2, 3), **how))


def test_references_are_pytorch_s() -> None:
    x = np.random.default_rng(5).standard_normal((2, 6, 5, 7))
    data = torch.from_numpy(x)
    for mode, interpolation in (("bilinear", "linear"), ("bicubic", "cubic")):
        for corners in (False, True):
            how: dict[str, Any] = {"interpolation": interpolation}
            how["coordinates"] = "align_corners" if corners else "half_pixel"
            problem = ResizeProblem(x=x.shape, sizes=(2, 6, 9, 12), **how)
            expected = torch.nn.functional.interpolate(
                data, (9, 12), mode=mode, align_corners=corners
            )
            np.testing.assert_allclose(problem.reference({"x": x})["y"], expected, atol=1e-9)
    norm = LocalResponseNormProblem(x=x.shape, size=5, alpha=0.1)
    np.testing.assert_allclose(
        norm.reference({"x": x})["y"],
        torch.nn.functional.local_response_norm(data, 5, alpha=0.1),
        rtol=1e-9,
    )


def test_kinds_are_words_of_their_own() -> None:
    kinds = [kind.kind for kind in problem_types()]
    assert len(set(kinds)) == len(kinds)
    assert {"pooling", "batch-norm", "matmul", "resize", "gather"} < set(kinds)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ProblemError, match="b: "):
        MatMulProblem(a=(2, 3), b=(4, 5))
    with pytest.raises(ProblemError, match="a size for each axis"):
        ResizeProblem(x=(2, 3), sizes=(2,))
    with pytest.raises(ProblemError, match="floating types for linear"):
        ResizeProblem(x=(2,), sizes=(3,), interpolation="linear", dtype="int8")  # type: ignore[arg-type]
