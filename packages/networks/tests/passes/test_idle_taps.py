"""Taps that meet nothing but padding are cut off."""

from __future__ import annotations

import numpy as np
import pytest
from networks_for_tests import assert_same_results, graph_of

from convfind_networks import Graph, GraphBuilder, Value
from convfind_networks.ops import Convolution, Epilogue, Geometry
from convfind_networks.passes import cut_idle_taps, remove_dead_code

RNG = np.random.default_rng(0)


def cut(geometry: Geometry, taps: tuple[int, ...], spatial: tuple[int, ...]) -> Graph:
    def make(b: GraphBuilder, x: Value) -> Value:
        w = b.constant(RNG.standard_normal((6, 4 // geometry.groups, *taps)), np.float32)
        bias = b.constant(RNG.standard_normal(6), np.float32)
        return b.add(Convolution(geometry, Epilogue(bias=True)), x, w, bias)

    graph = graph_of(make, (2, 4, *spatial))
    result = remove_dead_code(cut_idle_taps(graph))
    assert_same_results(graph, result)
    return result


def square(dilation: int, padding: int, stride: int = 1, groups: int = 1) -> Geometry:
    pads, steps = (padding, padding), (stride, stride)
    return Geometry(steps, pads, pads, (dilation, dilation), groups)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_filter_wider_than_the_image_is_one_tap(groups: int) -> None:
    (node,) = cut(square(8, 8, groups=groups), (3, 3), (8, 8)).nodes
    plain = Geometry((1, 1), (0, 0), (0, 0), (1, 1), groups)
    assert node.op == Convolution(plain, Epilogue(bias=True))


def test_each_axis_is_cut_by_itself() -> None:
    graph = cut(square(6, 6), (3, 3), (5, 9))
    (node,) = graph.nodes
    assert graph.values[node.inputs[1]].shape == (6, 4, 1, 3)
    expected = Geometry((1, 1), (0, 6), (0, 6), (1, 6))
    assert node.op == Convolution(expected, Epilogue(bias=True))


def test_taps_at_one_end_are_cut() -> None:
    # Positions -9, -4 and 1 of x, of 5: of taps 9 apart the first two lie there, not the third.
    graph = cut(Geometry((5,), (9,), (15,), (9,)), (3,), (5,))
    (node,) = graph.nodes
    assert graph.values[node.inputs[1]].shape == (6, 4, 2)
    assert node.op == Convolution(Geometry((5,), (9,), (6,), (9,)), Epilogue(bias=True))


@pytest.mark.parametrize(
    ("geometry", "taps", "spatial"),
    [
        (square(7, 7), (3, 3), (8, 8)),  # its corners meet corners
        (square(1, 3), (3, 3), (4, 4)),
        (square(2, 1, stride=2), (3, 3), (7, 6)),
        (Geometry((7,), (2,), (5,), (3,)), (2,), (4,)),  # idle, but x begins before the next one
    ],
    ids=["corners", "padded", "strided", "passed over"],
)
def test_taps_that_meet_data_stay(
    geometry: Geometry, taps: tuple[int, ...], spatial: tuple[int, ...]
) -> None:
    (node,) = cut(geometry, taps, spatial).nodes
    assert node.op == Convolution(geometry, Epilogue(bias=True))
