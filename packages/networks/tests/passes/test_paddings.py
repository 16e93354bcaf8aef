"""Explicit paddings become those of the operation that reads them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from networks_for_tests import assert_same_results, graph_of

from convfind_networks import Graph, GraphBuilder, Value
from convfind_networks.ops import (
    AveragePool,
    Convolution,
    Geometry,
    MaxPool,
    Op,
    Pad,
    PadMode,
    Window,
)
from convfind_networks.passes import fold_paddings, remove_dead_code

W = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype(np.float32)
SPATIAL = Pad((0, 0, 1, 0), (0, 0, 0, 2))


def window(pad: int = 0) -> Window:
    return Window((2, 3), (2, 1), (pad, pad), (pad, pad), (1, 1))


def padded(pad: Pad, op: Op) -> Graph:
    def make(b: GraphBuilder, x: Value) -> Value:
        more = [b.constant(W)] if isinstance(op, Convolution) else []
        return b.add(op, b.add(pad, x), *more)

    return graph_of(make, (2, 4, 6, 7))


def folded(graph: Graph) -> Graph:
    result = remove_dead_code(fold_paddings(graph))
    assert_same_results(graph, result)
    return result


@pytest.mark.parametrize(
    ("pad", "op"),
    [
        (SPATIAL, Convolution(Geometry((2, 1), (0, 1), (1, 0), (1, 1)))),
        (Pad(SPATIAL.begin, SPATIAL.end, value=-math.inf), MaxPool(window(1))),
        (SPATIAL, AveragePool(window())),
        (SPATIAL, AveragePool(window(), count_include_pad=True)),
        (SPATIAL, AveragePool(window(1), count_include_pad=True)),
    ],
    ids=["convolution", "max", "average", "average of all", "padded average of all"],
)
def test_a_padding_folds(pad: Pad, op: Op) -> None:
    assert len(folded(padded(pad, op)).nodes) == 1


@pytest.mark.parametrize(
    ("pad", "op"),
    [
        (Pad((0, 0, 1, 0), (0, 0, 0, 2), PadMode.EDGE), Convolution(Geometry.plain(2))),
        (Pad((0, 0, 1, 0), (0, 0, 0, 2), value=1.0), Convolution(Geometry.plain(2))),
        (Pad((0, 0, 3, 0), (0, 0, -1, 2)), Convolution(Geometry.plain(2))),
        (Pad((1, 0, 1, 0), (0, 0, 0, 2)), Convolution(Geometry.plain(2))),
        (
            SPATIAL,
            Convolution(Geometry((2, 2), (0, 0), (0, 0), (1, 1), transposed=True)),
        ),
        (SPATIAL, MaxPool(window())),
        (SPATIAL, AveragePool(window(1))),
    ],
    ids=["edge", "ones", "cut", "batch", "transposed", "max with 0", "average without pads"],
)
def test_a_padding_that_is_another_result_stays(pad: Pad, op: Op) -> None:
    assert len(folded(padded(pad, op)).nodes) == 2
