"""Compares a result with NumPy: all of it where that is quick, else a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from convfind.checking.accuracy import ErrorReport, spread_magnitude
from convfind.checking.reference import reference_magnitude, right_result
from convfind.problem import ConvProblem
from convfind.types import ConvMode, Direction

Array = np.ndarray[Any, Any]

#: Multiply-accumulates that NumPy does in about a second.
QUICK_MACS = 2 * 10**9
#: Up to so many results all may happen to be small beside the products that they are sums of.
_FEW_RESULTS = 4096


def spot_check(
    problem: ConvProblem,
    tensors: Mapping[str, Array],
    result: Array,
    limit: int = QUICK_MACS,
    *,
    reach: int = 0,
) -> ErrorReport:
    """Measure the error of a result, or of one image or some output channels of it.

    Args:
        problem: what was computed.
        tensors: those that were read, by name.
        result: what was computed, axes in the order of its layout.
        limit: multiply-accumulates up to which all of the result is compared.
        reach: how far errors spread; see `Solver.error_reach`.
    """
    everything = {**tensors, problem.direction.writes: result}
    if problem.macs > limit:
        if problem.direction is not Direction.BACKWARD_WEIGHTS:
            problem, everything = _last_image(problem, everything)
        elif problem.groups == 1 and problem.mode is ConvMode.CONVOLUTION:
            channels = max(1, problem.w_shape[0] * limit // problem.macs)
            problem, everything = _first_channels(problem, everything, channels)
    first, second = (everything[name] for name in problem.direction.reads)
    addends = everything.get("z"), everything.get("bias")
    writes = problem.direction.writes
    compared = everything[writes]
    magnitude = None
    if compared.size <= _FEW_RESULTS:
        magnitude = spread_magnitude(
            reference_magnitude(problem, first, second, *addends),
            reach,
            channels_last=problem.tensor_layout(writes).channels_last,
        )
    right = right_result(problem, first, second, *addends)
    return right.error_of(compared, magnitude)


def _last_image(
    problem: ConvProblem, tensors: dict[str, Array]
) -> tuple[ConvProblem, dict[str, Array]]:
    whole = ("w", "bias")
    part = {name: one if name in whole else one[-1:] for name, one in tensors.items()}
    return problem.with_batch(1), part


def _first_channels(
    problem: ConvProblem, tensors: dict[str, Array], channels: int
) -> tuple[ConvProblem, dict[str, Array]]:
    y = tensors["y"]
    part = y[..., :channels] if problem.y_layout.channels_last else y[:, :channels]
    smaller = ConvProblem.backward_weights(
        problem.x_shape,
        (channels, *problem.w_shape[1:]),
        stride=problem.stride,
        padding=list(zip(problem.padding, problem.padding_end, strict=True)),
        dilation=problem.dilation,
        dtype=problem.dtype,
        y_dtype=problem.y_dtype,
        x_layout=problem.x_layout,
        w_layout=problem.w_layout,
        y_layout=problem.y_layout,
        alpha=problem.alpha,
        allow_tf32=problem.allow_tf32,
    )
    return smaller, {"x": tensors["x"], "y": part, "w": tensors["w"][:channels]}
