"""Random problems of odd sizes for a solver: its directions, layouts and types, any epilogue."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from convfind.errors import ProblemError
from convfind.problem import Activation, ActivationKind, ConvProblem
from convfind.solver import Solver
from convfind.types import AccuracyClass, DataType, Direction, Layout

Random = np.random.Generator

_CHANNELS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 40, 48, 64, 65, 96, 128)
_ACTIVATIONS = (
    *map(Activation, ActivationKind),
    *(Activation("clip", -1, 2), Activation("leaky", 0.25), Activation("leaky", 3)),
    *(Activation("elu", 0.5), Activation("tanh", 0.5, 1.75), Activation("power", 0.5, 0.25, 2)),
)


def drawn_problem(solver: Solver, rng: Random, most_macs: int = 2 * 10**7) -> ConvProblem | None:
    """Draw a plain problem that the solver's domain does not exclude at once, or None."""
    domain = solver.domain
    direction = Direction(str(rng.choice(domain.directions)))
    dtype = DataType(str(rng.choice(domain.dtypes)))
    if dtype is DataType.INT8 and direction is not Direction.FORWARD:
        return None
    with suppress(ProblemError):
        problem = ConvProblem.create(direction, **_convolution(rng, domain), dtype=dtype)
        problem = _fused(_laid_out(problem, rng, domain.channels_last), rng)
        if problem.macs <= most_macs and problem.traffic <= 2**24:
            return problem
    return None


def _convolution(rng: Random, domain: Any) -> dict[str, Any]:
    ranks = [rank for rank in (2, 2, 2, 2, 1, 3) if rank in domain.ranks]
    rank = int(rng.choice(ranks or domain.ranks))
    taps = tuple(int(rng.choice((1, 1, 3, 3, 3, 2, 5, 7, 4))) for _ in range(rank))
    if rng.random() < 0.7:
        taps = taps[:1] * rank
    size = tuple(int(rng.integers(1, (90, 34, 12)[rank - 1])) for _ in range(rank))
    channels, filters = (int(rng.choice(_CHANNELS)) for _ in range(2))
    groups = 1
    kind = rng.random()
    if kind < 0.15:
        groups = channels
        filters = channels * int(rng.choice((1, 1, 2)))
    elif kind < 0.3:
        groups = int(rng.choice((2, 3, 4)))
        channels, filters = (-(-count // groups) * groups for count in (channels, filters))
    stride = int(rng.choice((1, 1, 1, 2, 2, 3)))
    dilation = int(rng.choice((1, 1, 1, 1, 2)))
    padding: Any = int(rng.choice((0, 1, 1, 2, 3))) if max(taps) > 1 else 0
    if rng.random() < 0.3:
        padding = "same"
    elif rng.random() < 0.1:
        padding = tuple((int(rng.integers(3)), int(rng.integers(3))) for _ in range(rank))
    return {
        "x": (int(rng.integers(1, 5)), channels, *size),
        "w": (filters, channels // groups, *taps),
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "groups": groups,
        "accuracy": AccuracyClass(str(rng.choice(("normal", "normal", "relaxed", "strict")))),
        "allow_tf32": bool(rng.random() < 0.2),
        "deterministic": bool(rng.random() < 0.1),
    }


def _laid_out(problem: ConvProblem, rng: Random, channels_last: bool | None) -> ConvProblem:
    last = bool(rng.random() < 0.5) if channels_last is None else channels_last
    layout = Layout.of(problem.spatial_rank, channels_last=last)
    problem = replace(problem, x_layout=layout, w_layout=layout, y_layout=layout)
    if channels_last is None and rng.random() < 0.1:
        problem = replace(problem, w_layout=Layout.of(problem.spatial_rank))
    return problem


def _fused(problem: ConvProblem, rng: Random) -> ConvProblem:
    alpha = float(rng.choice((1.0, 1.0, 1.0, 2.0, -3.0)))
    beta = float(rng.choice((0.0, 0.0, 1.0, -2.0)))
    if problem.dtype is DataType.INT8 and rng.random() < 0.5:
        problem = replace(problem, y_dtype=DataType.FLOAT32)
    if problem.direction is Direction.BACKWARD_WEIGHTS:
        return replace(problem, alpha=alpha, beta=beta)
    has_activation = problem.y_dtype.is_float and bool(rng.random() < 0.75)
    adds = bool(rng.random() < 0.5)
    return replace(
        problem,
        alpha=alpha,
        beta=beta or 1.0 if adds else beta,
        bias=bool(rng.random() < 0.6),
        add=adds,
        activation=_ACTIVATIONS[rng.integers(len(_ACTIVATIONS))] if has_activation else None,
        add_last=adds and has_activation and bool(rng.random() < 0.4),
    )
