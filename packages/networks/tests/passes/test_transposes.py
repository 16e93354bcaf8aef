"""Transposes go behind the arithmetic that a product takes in."""

from __future__ import annotations

import numpy as np
import pytest
from networks_for_tests import assert_same_results, graph_of

from convfind_networks import Graph, GraphBuilder, Value
from convfind_networks.ops import (
    Binary,
    BinaryFunction,
    Epilogue,
    Linear,
    Transpose,
)
from convfind_networks.passes import move_transposes, optimize

RNG = np.random.default_rng(0)
ARITHMETIC = [BinaryFunction(word) for word in ("add", "sub", "mul", "div", "min", "max")]
FIRST, LAST = Transpose((0, 3, 1, 2)), Transpose((0, 2, 3, 1))


def constant(b: GraphBuilder, *shape: int) -> Value:
    return b.constant(RNG.standard_normal(shape), np.float32)


def product(b: GraphBuilder, x: Value, residual: bool = False) -> Value:
    """The product of x's channels, which are the first of an image, with channels first."""
    more = [b.add(LAST, x)] * residual
    y = b.add(Linear(Epilogue(residual=residual)), b.add(LAST, x), constant(b, 4, 4), *more)
    return b.add(FIRST, y)


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes]


@pytest.mark.parametrize("swapped", [False, True])
def test_scaled_sums_of_a_block_are_its_product_s(swapped: bool) -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        scaled = b.add(Binary(BinaryFunction.MUL), product(b, x), constant(b, 4, 1, 1))
        return b.add(Binary(BinaryFunction.ADD), *((x, scaled) if swapped else (scaled, x)))

    graph = graph_of(make, (2, 4, 3, 5))
    result = optimize(graph)
    assert_same_results(graph, result)
    assert "Binary" not in kinds(result)
    (linear,) = (node.op for node in result.nodes if isinstance(node.op, Linear))
    assert linear.epilogue == Epilogue(residual=True)


@pytest.mark.parametrize("function", ARITHMETIC)
@pytest.mark.parametrize("shape", [(), (5,), (3, 1), (4, 1, 1), (2, 1, 3, 5)])
def test_arithmetic_with_constants_is_done_before(
    function: BinaryFunction, shape: tuple[int, ...]
) -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        turned = b.add(FIRST, x)
        other = b.constant(0.5 + RNG.random(shape), np.float32)
        return b.add(Binary(function), turned, other)

    graph = graph_of(make, (2, 3, 5, 4))
    result = move_transposes(graph)
    assert_same_results(graph, result)
    assert kinds(result) == ["Binary", "Transpose"]


def test_what_others_read_or_no_product_takes_in_stays() -> None:
    def read_twice(b: GraphBuilder, x: Value) -> Value:
        turned = product(b, x)
        y = b.add(Binary(BinaryFunction.ADD), turned, x)
        return b.add(Binary(BinaryFunction.MUL), y, turned)

    def sums_already(b: GraphBuilder, x: Value) -> Value:
        return b.add(Binary(BinaryFunction.ADD), product(b, x, residual=True), x)

    def broadcast(b: GraphBuilder, x: Value) -> Value:
        wide = b.add(Binary(BinaryFunction.ADD), constant(b, 2, 4, 1, 5), constant(b, 4, 3, 1))
        return b.add(Binary(BinaryFunction.ADD), x, wide)

    for make in (read_twice, sums_already, broadcast):
        graph = graph_of(make, (2, 4, 3, 5))
        result = move_transposes(graph)
        assert_same_results(graph, result)
        assert kinds(result) == kinds(graph)
