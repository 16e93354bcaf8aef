"""The built-in problems of `check_solver`: small shapes at edge cases of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any
from zlib import crc32

from convfind.problem import Activation, ActivationKind, ConvProblem
from convfind.problem.traits import EPILOGUE_TRAITS, Trait
from convfind.types import ConvMode, DataType, Direction, Layout

#: The trait of `with_unknown_trait`.
UNKNOWN_TRAIT = "unknown-trait"
_ACTIVATIONS = (*map(Activation, ActivationKind), Activation("clip", -1, 2), Activation("leaky", 3))

# Shape of x, shape of w, options of ConvProblem.forward.
_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    # ordinary
    ((2, 8, 9, 11), (16, 8, 3, 3), {"padding": 1}),
    ((2, 16, 28, 28), (16, 16, 3, 3), {"padding": 1}),
    ((4, 16, 14, 14), (32, 16, 3, 3), {"padding": 1, "stride": 2}),
    ((1, 3, 21, 21), (8, 3, 7, 7), {"padding": 3, "stride": 2}),
    ((1, 8, 12, 12), (8, 8, 5, 5), {"padding": 2}),
    ((17, 3, 5, 5), (4, 3, 3, 3), {}),
    ((1, 65, 6, 6), (33, 65, 3, 3), {"padding": 1}),
    # pointwise
    ((2, 16, 7, 7), (8, 16, 1, 1), {}),
    ((3, 4, 8, 10), (6, 4, 1, 1), {}),
    ((1, 33, 5, 3), (17, 33, 1, 1), {}),
    ((2, 6, 9, 9), (7, 6, 1, 1), {"stride": 2}),
    ((2, 6, 4, 5), (7, 6, 1, 1), {"padding": 1}),
    # ones and primes
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((2, 1, 12, 10), (8, 1, 3, 3), {}),
    ((2, 6, 8, 8), (1, 6, 3, 3), {"padding": 1}),
    ((3, 7, 13, 17), (11, 7, 3, 5), {"padding": (1, 2)}),
    ((2, 4, 5, 5), (6, 4, 5, 5), {}),
    ((1, 2, 3, 70), (4, 2, 3, 3), {"padding": 1}),
    ((2, 3, 1, 31), (5, 3, 1, 7), {"padding": (0, 3)}),
    ((2, 3, 31, 1), (5, 3, 7, 1), {"padding": (3, 0)}),
    # geometry
    ((1, 3, 4, 4), (5, 3, 3, 3), {"padding": 7, "stride": 2}),
    ((2, 5, 13, 13), (6, 5, 2, 2), {"stride": 3}),
    ((2, 4, 11, 12), (6, 4, 3, 2), {"stride": (1, 3), "padding": (2, 0)}),
    ((1, 6, 15, 14), (7, 6, 3, 3), {"dilation": (2, 3), "padding": 2}),
    ((2, 4, 16, 16), (4, 4, 3, 3), {"dilation": 2, "stride": 2, "padding": 3}),
    ((2, 4, 9, 10), (6, 4, 3, 3), {"padding": ((0, 1), (2, 1))}),
    ((2, 4, 10, 10), (6, 4, 3, 3), {"padding": "same", "stride": 2}),
    # groups
    ((2, 12, 9, 9), (12, 1, 3, 3), {"groups": 12, "padding": 1}),
    ((1, 4, 8, 8), (8, 1, 3, 3), {"groups": 4, "stride": 2}),
    ((2, 9, 8, 7), (6, 3, 3, 3), {"groups": 3, "padding": 1}),
    ((2, 8, 6, 6), (12, 4, 1, 1), {"groups": 2}),
    # one and three dimensions
    ((2, 5, 19), (6, 5, 3), {"padding": 1}),
    ((2, 4, 40), (8, 4, 5), {"stride": 2, "dilation": 3, "padding": 2}),
    ((3, 16, 33), (8, 16, 1), {}),
    ((1, 4, 5, 6, 7), (6, 4, 3, 3, 3), {"padding": 1}),
    ((2, 4, 4, 5, 5), (6, 2, 1, 2, 2), {"stride": (1, 2, 2), "groups": 2}),
    # gaps in memory, scaling, promises
    ((2, 4, 6, 7), (5, 4, 3, 3), {"padding": 1, "x_strides": (400, 80, 10, 1)}),
    ((2, 4, 6, 7), (5, 4, 3, 3), {"padding": 1, "y_strides": (2, 420, 60, 8)}),
    ((2, 4, 6, 7), (5, 4, 1, 1), {"x_strides": (256, 64, 8, 1), "y_strides": (300, 60, 8, 1)}),
    ((2, 4, 6, 7), (5, 4, 3, 3), {"w_strides": (40, 10, 3, 1)}),
    # results among the channels of a larger tensor
    (
        (2, 8, 6, 7),
        (24, 8, 3, 3),
        {"padding": 1, "layout": "NHWC", "y_strides": (1680, 1, 280, 40)},
    ),
    ((2, 4, 6, 7), (5, 4, 1, 1), {"layout": "NHWC", "y_strides": (378, 1, 63, 9)}),
    ((2, 6, 8, 9), (4, 6, 3, 3), {"padding": 1, "alpha": 0.5, "beta": 2.0}),
    ((2, 6, 8, 9), (4, 6, 1, 1), {"alpha": 2.0, "beta": 1.0}),
    ((2, 6, 8, 9), (4, 6, 3, 3), {"padding": 1, "deterministic": True}),
    # products that tensor cores may round, in sums long enough for them to show
    ((3, 8, 30, 30), (8, 8, 3, 3), {"padding": 1, "allow_tf32": True}),
    # transposed; solvers see the plain problem behind it
    ((2, 6, 5, 5), (6, 4, 3, 3), {"mode": "transpose", "stride": 2, "output_padding": 1}),
    ((1, 4, 7, 6), (4, 3, 4, 4), {"mode": "transpose", "stride": 2, "padding": 1}),
)


def edge_cases() -> tuple[ConvProblem, ...]:
    """Return the built-in problems: forward, float32, channels first."""
    return tuple(ConvProblem.forward(x, w, **options) for x, w, options in _CASES)


def variants(problem: ConvProblem) -> Iterator[ConvProblem]:
    """Yield a problem in every direction, element type and layout that is possible.

    Channels-last and mixed layouts are used only for problems without strides of their own.
    """
    for direction in Direction:
        turned = problem.with_direction(direction)
        layouts = (turned, *_other_layouts(turned))
        yield from layouts
        for dtype in (DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT64):
            yield from (replace(other, dtype=dtype, y_dtype=dtype) for other in layouts[:2])
        if turned.plain_direction is Direction.FORWARD and turned.mode is ConvMode.CONVOLUTION:
            yield replace(turned, dtype=DataType.INT8, y_dtype=DataType.FLOAT32)
            if float(turned.alpha).is_integer():
                yield replace(turned, dtype=DataType.INT8, y_dtype=DataType.INT32)


def _other_layouts(problem: ConvProblem) -> Iterator[ConvProblem]:
    if not problem.is_packed:
        return
    first = Layout.of(problem.spatial_rank)
    last = Layout.of(problem.spatial_rank, channels_last=True)
    for x, w, y in ((last, last, last), (last, first, last), (first, last, last)):
        yield replace(problem, x_layout=x, w_layout=w, y_layout=y)


def fused(problem: ConvProblem, traits: frozenset[str] = EPILOGUE_TRAITS) -> ConvProblem:
    """Return the problem with as much of an epilogue as it can have, of these traits.

    The activation, the factors, and where a tensor is added depend on the problem only.
    Weights have no epilogue.
    """
    if problem.plain_direction is Direction.BACKWARD_WEIGHTS:
        return problem
    draw = crc32(problem.key.encode())
    adds = Trait.ADD in traits
    has_activation = Trait.ACTIVATION in traits and problem.y_dtype.is_float
    return replace(
        problem,
        bias=Trait.BIAS in traits,
        add=adds,
        beta=(1.0, 2.0, -3.0)[draw % 3] if adds else problem.beta,
        activation=_ACTIVATIONS[draw % len(_ACTIVATIONS)] if has_activation else None,
        add_last=Trait.ADD_LAST in traits and has_activation and draw % 2 == 1,
    )


def weird_problems() -> tuple[ConvProblem, ...]:
    """Return possible but absurd problems, which a solver must judge and nobody runs."""
    cases: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
        ((2**40, 1, 1, 1), (1, 1, 1, 1), {}),
        ((1, 2**40, 1, 1), (1, 2**40, 1, 1), {}),
        ((1, 1, 2**20, 2**20), (2**20, 1, 1, 1), {}),
        ((1, 1, 2**31), (1, 1, 2**31), {}),
        ((1, 2**20, 3, 3), (2**20, 1, 3, 3), {"groups": 2**20, "padding": 1}),
        ((1, 1, 1, 1), (1, 1, 3, 3), {"padding": 2**39, "stride": 2**38}),
        ((1, 1, 9, 9), (1, 1, 2, 2), {"stride": 2**40, "dilation": 8}),
        ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), {"dilation": 2**40}),
        ((1, 1, 5, 5), (1, 1, 5, 5), {"alpha": 0.0, "beta": -1e30}),
        ((2, 2, 2), (2, 2, 1), {"x_strides": (2**39, 2**20, 1)}),
    )
    return tuple(ConvProblem.forward(x, w, **options) for x, w, options in cases)


class _LaterProblem(ConvProblem):
    @property
    def traits(self) -> frozenset[str]:
        return super().traits | {UNKNOWN_TRAIT}


def with_unknown_trait(problem: ConvProblem) -> ConvProblem:
    """Return the problem with an unknown property, which every solver must refuse."""
    given = {field.name: getattr(problem, field.name) for field in fields(problem) if field.init}
    return _LaterProblem(**given)
