"""The conformance kit sees a NaN where nobody reads one, and where one was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.testing import MockDevice, check_solver
from convfind.testing.device_checks import CorrectRun
from convfind.testing.guarded_run import GuardedRunner
from convfind.testing.mock_functions import MOCK_FUNCTIONS, mock_convolution, mock_fused
from convfind.testing.non_finite_checks import NonFiniteChecks
from convfind.testing.numbers import Numbers
from convfind.testing.report import SolverReport
from convfind.testing.solvers import MockDynamic, MockFused, MockSolver
from convfind.testing.tensors import Bytes
from convfind.types import Direction, Layout

EACH_DIRECTION = pytest.mark.parametrize("direction", list(Direction))
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 4, 5, 6), (6, 2, 3, 3), {"padding": 1, "groups": 2}),
    ((1, 3, 6, 7), (5, 3, 3, 2), {"stride": (2, 3), "dilation": (1, 2)}),
    ((2, 3, 4, 5), (2, 3, 1, 1), {"stride": 2}),
)

Kernel = Callable[..., None]


class Mixing(MockDynamic):
    """Says that images are mixed."""

    def mixes_values(self, problem: ConvProblem) -> bool:
        return True


def problems(direction: Direction) -> list[ConvProblem]:
    return [
        ConvProblem.create(direction, x, w, layout=layout, **options)
        for x, w, options in SHAPES
        for layout in (Layout.NCHW, Layout.NHWC)
    ]


def complaints(
    kernel: Kernel, shapes: list[ConvProblem], solver: type[MockSolver] = MockDynamic
) -> str:
    """Check a solver with a kernel on many poisoned elements; return what is wrong, all in one."""
    device = MockDevice(functions={**MOCK_FUNCTIONS, solver.entry: kernel})
    report, runner = SolverReport(solver.solver_id, device.target.identity), GuardedRunner(device)
    for seed in range(6):
        checks = NonFiniteChecks(report, solver(), seed)
        for problem in shapes:
            memory = runner.memory(problem, solver().solution(problem, device.target))
            numbers = Numbers.random(problem, seed)
            checks.check(CorrectRun(memory, numbers, memory.run(numbers.memory).result))
    assert {failure.check for failure in report.failures} <= {"not finite"}
    return "\n".join(failure.detail for failure in report.failures)


def views(x: Bytes, w: Bytes, y: Bytes, words: Any) -> tuple[ConvProblem, dict[str, Any]]:
    problem = ConvProblem.from_key(np.array(words, np.int64).tobytes().decode().strip())
    memory = {"x": x, "w": w, "y": y}
    return problem, {name: tensor_view(problem, name, memory[name]) for name in memory}


@EACH_DIRECTION
def test_the_reference_passes(direction: Direction) -> None:
    assert complaints(mock_convolution, problems(direction)) == ""


@EACH_DIRECTION
def test_zero_times_another_element_is_seen(direction: Direction) -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *words: Any) -> None:
        mock_convolution(x, w, y, *words)
        problem, tensors = views(x, w, y, words)
        read = tensors[problem.direction.reads[0]]
        tensors[problem.direction.writes][...] += 0 * np.ravel(read)[-1]

    assert "that do not read it, the first at" in complaints(kernel, problems(direction))


def test_what_no_tap_reads_is_not_read() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *words: Any) -> None:
        mock_convolution(x, w, y, *words)
        _, tensors = views(x, w, y, words)
        tensors["w"][...] += 0 * tensors["x"][..., 1::2, 1::2].sum()

    skipping = ConvProblem.backward_weights((1, 3, 5, 7), (2, 3, 1, 1), stride=2)
    found = complaints(kernel, [skipping])
    assert "nan at all unread elements of x reaches 6 results that do not read it" in found


def test_the_conformance_kit_runs_these_checks() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *words: Any) -> None:
        mock_convolution(x, w, y, *words)
        tensors = views(x, w, y, words)[1]
        tensors["y"][...] += 0 * tensors["x"].sum()

    device = MockDevice(functions={**MOCK_FUNCTIONS, MockDynamic.entry: kernel})
    shapes = problems(Direction.FORWARD)[:1]
    report = check_solver(MockDynamic(), device, shapes=shapes, every_variant=False)
    assert {failure.check for failure in report.failures} == {"not finite"}


@EACH_DIRECTION
def test_a_nan_that_becomes_a_number_is_seen(direction: Direction) -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *words: Any) -> None:
        mock_convolution(x, w, y, *words)
        problem, tensors = views(x, w, y, words)
        result = tensors[problem.direction.writes]
        result[np.isnan(result)] = 0

    assert "nan at" in (found := complaints(kernel, problems(direction)))
    assert "is lost in" in found


def test_a_nan_in_what_is_added_is_seen() -> None:
    def forgetful(x: Bytes, w: Bytes, y: Bytes, *others: Any) -> None:
        mock_fused(x, w, y, *others)
        _, tensors = views(x, w, y, [one for one in others if isinstance(one, np.int64)])
        tensors["y"][np.isnan(tensors["y"])] = 0

    shapes = [
        ConvProblem.forward(
            x=(2, 4, 5, 6),
            w=(6, 2, 3, 3),
            padding=1,
            groups=2,
            layout=layout,
            bias=True,
            add=True,
            beta=2.0,
            activation="relu",
        )
        for layout in (Layout.NCHW, Layout.NHWC)
    ]
    assert complaints(mock_fused, shapes, MockFused) == ""
    found = complaints(forgetful, shapes, MockFused)
    assert "of bias is lost in 60 results that read it" in found
    assert "of z is lost in 1 results that read it" in found


def test_nobody_reads_what_is_added_times_zero() -> None:
    def reading(x: Bytes, w: Bytes, y: Bytes, *others: Any) -> None:
        mock_fused(x, w, y, *others)
        _, tensors = views(x, w, y, [one for one in others if isinstance(one, np.int64)])
        z = next(one for one in others if one.nbytes == y.nbytes)
        tensors["y"][...] += 0 * tensor_view(problem, "z", z)

    problem = ConvProblem.forward(x=(2, 4, 5, 6), w=(6, 4, 3, 3), add=True, beta=0.0)
    assert complaints(mock_fused, [problem], MockFused) == ""
    found = complaints(reading, [problem], MockFused)
    assert "of z reaches 1 results that do not read it" in found


def test_an_infinity_that_becomes_a_number_is_seen_and_nan_is_not_one() -> None:
    def clamped(x: Bytes, w: Bytes, y: Bytes, *words: Any) -> None:
        mock_convolution(x, w, y, *words)
        result = views(x, w, y, words)[1]["y"]
        np.clip(result, -1e30, 1e30, out=result)

    def subtracted(x: Bytes, w: Bytes, y: Bytes, *words: Any) -> None:
        mock_convolution(x, w, y, *words)
        result = views(x, w, y, words)[1]["y"]
        result[np.isinf(result)] = np.nan

    assert "inf at" in (found := complaints(clamped, problems(Direction.FORWARD)))
    assert "nan at" not in found
    assert complaints(subtracted, problems(Direction.FORWARD)) == ""


def test_zeros_of_the_padding_may_meet_anything() -> None:
    def skipping(x: Bytes, w: Bytes, y: Bytes, *words: Any) -> None:
        """Leaves padding out, where the reference multiplies by it."""
        problem, tensors = views(x, w, y, words)
        weights = tensors["w"].copy()
        tensors["w"][...] = np.where(np.isfinite(weights), weights, 0)
        mock_convolution(x, w, y, *words)
        tensors["w"][...] = weights
        height, width = problem.x_shape[2:]
        out_h, out_w = problem.y_shape[2:]
        for k, _, i, j in np.argwhere(~np.isfinite(weights)):
            rows = [o for o in range(out_h) if 0 <= o + i - 1 < height]
            columns = [o for o in range(out_w) if 0 <= o + j - 1 < width]
            tensors["y"][np.ix_(range(problem.x_shape[0]), [k], rows, columns)] = np.nan

    padded = ConvProblem.forward((2, 3, 5, 6), (4, 3, 3, 3), padding=1)
    assert complaints(skipping, [padded]) == ""


def test_who_mixes_values_does_so_in_an_image_only() -> None:
    def one_image(x: Bytes, w: Bytes, y: Bytes, *words: Any) -> None:
        mock_convolution(x, w, y, *words)
        result = views(x, w, y, words)[1]["y"]
        result[~np.isfinite(result).all(axis=(1, 2, 3))] = np.nan

    def all_images(x: Bytes, w: Bytes, y: Bytes, *words: Any) -> None:
        mock_convolution(x, w, y, *words)
        result = views(x, w, y, words)[1]["y"]
        if not np.isfinite(result).all():
            result[...] = np.nan

    shapes = [problem for problem in problems(Direction.FORWARD) if problem.x_shape[0] > 1]
    assert "that do not read it" in complaints(one_image, shapes)
    assert complaints(one_image, shapes, Mixing) == ""
    assert "of x reaches" in complaints(all_images, shapes, Mixing)
