"""Convolutions of one value that are added up become one convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from networks_for_tests import assert_same_results, graph_of

from convfind_networks import Graph, GraphBuilder, TensorType, Value
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BatchNorm,
    Binary,
    BinaryFunction,
    Convolution,
    Epilogue,
    Geometry,
)
from convfind_networks.passes import fold_scales, remove_dead_code

RNG = np.random.default_rng(0)
ADD, SUB, MUL = map(Binary, (BinaryFunction.ADD, BinaryFunction.SUB, BinaryFunction.MUL))
Branches = Callable[[GraphBuilder, Value], Value]


def constant(b: GraphBuilder, *shape: int, dtype: Any = np.float32) -> Value:
    return b.constant(np.abs(RNG.standard_normal(shape)) + 0.5, dtype)


def norm(b: GraphBuilder, x: Value) -> Value:
    return b.add(BatchNorm(1e-3), x, *(constant(b, x.shape[1]) for _ in range(4)))


def convolution(
    b: GraphBuilder,
    x: Value,
    taps: tuple[int, ...],
    padding: tuple[int, ...],
    *,
    groups: int = 1,
    filters: int = 6,
    bias: bool = True,
    stride: int = 1,
    dilation: int = 1,
    end: tuple[int, ...] | None = None,
) -> Value:
    rank = len(taps)
    steps = (stride,) * rank, padding, padding if end is None else end, (dilation,) * rank
    w = constant(b, filters, x.shape[1] // groups, *taps, dtype=x.dtype)
    more = [constant(b, filters, dtype=x.dtype)] * bias
    return b.add(Convolution(Geometry(*steps, groups), Epilogue(bias=bias)), x, w, *more)


def merged(make: Branches, *shape: int) -> Graph:
    graph = graph_of(make, shape or (2, 6, 9, 8))
    result = remove_dead_code(fold_scales(graph))
    assert_same_results(graph, result)
    return result


def three(b: GraphBuilder, x: Value) -> Value:
    y = b.add(ADD, norm(b, convolution(b, x, (1, 1), (0, 0))), norm(b, x))
    return b.add(ADD, norm(b, convolution(b, x, (3, 3), (1, 1), bias=False)), y)


def three_of_groups(b: GraphBuilder, x: Value) -> Value:
    y = b.add(ADD, convolution(b, x, (3, 1), (1, 0), groups=2), norm(b, x))
    return b.add(ADD, y, convolution(b, x, (3, 3), (1, 1), groups=2))


def mixer(b: GraphBuilder, x: Value) -> Value:
    y = b.add(ADD, convolution(b, x, (3, 3), (1, 1), groups=6), norm(b, x))
    y = b.add(SUB, y, norm(b, x))
    y = b.add(MUL, y, constant(b, 1, 6, 1, 1))
    return b.add(ADD, x, y)


def one_norm(b: GraphBuilder, x: Value) -> Value:
    scaled = norm(b, x)
    y = b.add(ADD, convolution(b, x, (3, 3), (1, 1), groups=6), scaled)
    return b.add(SUB, scaled, y)


def strided(b: GraphBuilder, x: Value) -> Value:
    long = convolution(b, x, (7, 7), (3, 3), groups=6, filters=12, stride=2)
    short = convolution(b, x, (3, 3), (1, 1), groups=6, filters=12, stride=2)
    return b.add(SUB, short, long)


def uneven(b: GraphBuilder, x: Value) -> Value:
    long = convolution(b, x, (4, 3), (2, 0), end=(1, 2))
    return b.add(ADD, convolution(b, x, (2, 2), (1, 0), end=(0, 1)), long)


def dilated(b: GraphBuilder, x: Value) -> Value:
    y = b.add(ADD, norm(b, x), convolution(b, x, (3, 3), (2, 2), dilation=2))
    return b.add(ADD, y, convolution(b, x, (2, 1), (2, 0), dilation=2, end=(0, 0)))


@pytest.mark.parametrize(
    "make", [three, three_of_groups, mixer, one_norm, strided, uneven, dilated]
)
def test_filters_are_added_up(make: Branches) -> None:
    (node,) = merged(make).nodes
    assert isinstance(node.op, Convolution)
    assert node.op.epilogue == Epilogue(bias=True)


def test_lines_and_volumes_are_merged_too() -> None:
    for rank in 1, 3:

        def make(b: GraphBuilder, x: Value, rank: int = rank) -> Value:
            y = convolution(b, x, (3,) * rank, (1,) * rank)
            return b.add(ADD, y, convolution(b, x, (1,) * rank, (0,) * rank))

        assert len(merged(make, 1, 6, *(5,) * rank).nodes) == 1


def another_value(b: GraphBuilder, x: Value) -> Value:
    y = convolution(b, b.add(ADD, x, x), (1, 1), (0, 0))
    return b.add(ADD, y, convolution(b, x, (3, 3), (1, 1)))


def other_steps(b: GraphBuilder, x: Value) -> Value:
    y = convolution(b, x, (2, 2), (0, 0), stride=3, end=(1, 1))
    return b.add(ADD, y, convolution(b, x, (5, 5), (1, 1), stride=2, end=(0, 0)))


def other_taps(b: GraphBuilder, x: Value) -> Value:
    y = convolution(b, x, (3, 3), (2, 2), dilation=2)
    return b.add(ADD, y, convolution(b, x, (3, 3), (1, 1)))


def shifted(b: GraphBuilder, x: Value) -> Value:
    y = convolution(b, x, (2, 2), (2, 2), end=(0, 0))
    return b.add(ADD, y, convolution(b, x, (3, 3), (1, 1), end=(2, 2)))


def other_groups(b: GraphBuilder, x: Value) -> Value:
    y = convolution(b, x, (1, 1), (0, 0), groups=2)
    return b.add(ADD, y, convolution(b, x, (3, 3), (1, 1)))


def active(b: GraphBuilder, x: Value) -> Value:
    y = b.add(Activate(Activation(ActivationKind.RELU)), convolution(b, x, (1, 1), (0, 0)))
    return b.add(ADD, y, convolution(b, x, (3, 3), (1, 1)))


def repeated(b: GraphBuilder, x: Value) -> Value:
    whole = convolution(b, x, x.shape[2:], (0, 0))
    return b.add(ADD, whole, convolution(b, x, (3, 3), (1, 1)))


def residual(b: GraphBuilder, x: Value) -> Value:
    return b.add(ADD, convolution(b, x, (3, 3), (1, 1)), x)


def read_twice(b: GraphBuilder, x: Value) -> Value:
    y, z = (convolution(b, x, (3, 3), (1, 1)) for _ in range(2))
    return b.add(MUL, b.add(ADD, y, z), y)


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (another_value, 2),
        (other_steps, 2),
        (other_taps, 2),
        (shifted, 2),
        (other_groups, 2),
        (active, 2),
        (repeated, 2),
        (residual, 1),
        (read_twice, 2),
    ],
)
def test_what_is_no_sum_of_filters_stays(make: Branches, count: int) -> None:
    nodes = merged(make).nodes
    assert sum(isinstance(node.op, Convolution) for node in nodes) == count
    assert any(isinstance(node.op, Binary) for node in nodes)


def test_small_filters_in_float16_are_not_lost_beside_large_ones() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(np.dtype(np.float16), (1, 6, 5, 5)))
    y = builder.add(ADD, convolution(builder, x, (3, 3), (1, 1), groups=6), x)
    assert len(fold_scales(builder.graph({"y": y})).nodes) == 2
