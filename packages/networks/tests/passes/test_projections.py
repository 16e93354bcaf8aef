"""Queries, keys and values of one input come from one product, and are read where they lie."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from networks_for_tests import exported
from torch import Tensor, nn
from torch.nn import functional as F

from convfind_networks import Graph, Network, evaluate
from convfind_networks.ops import Attention, Linear, StridedView
from convfind_networks.passes import fuse_attention, join_projections

# PyTorch warns of itself while it exports.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

WIDTH, DEPTH, LENGTH = 48, 8, 5


class Heads(nn.Module):
    """Attention whose projections are layers of their own, of a number of heads each."""

    def __init__(self, *heads: int, bias: str = "", is_read: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v = (
            nn.Linear(WIDTH, count * DEPTH, bias=name in bias)
            for name, count in zip("qkv", heads, strict=True)
        )
        self.out, self.is_read = nn.Linear(heads[0] * DEPTH, WIDTH), is_read

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, ...]:
        seen = x if context is None else context
        made = self.q(x), self.k(seen), self.v(seen)
        q, k, v = (one.view(len(x), -1, one.shape[2] // DEPTH, DEPTH) for one in made)
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        y = self.out(y.transpose(1, 2).flatten(2))
        return (y, made[1].relu()) if self.is_read else (y,)


def joined(module: nn.Module, *inputs: Tensor) -> Graph:
    """Return the graph with joined layers, held to what PyTorch computes in float64."""
    graph = Network.from_torch(exported(module, *inputs)).optimized()
    found = join_projections(fuse_attention(graph, lambda op, types: True))
    values = dict(zip(graph.inputs, (one.numpy() for one in inputs), strict=True))
    with torch.no_grad():
        expected = module.double()(*(one.double() for one in inputs))
    for y, right in zip(evaluate(found, values).values(), expected, strict=True):
        np.testing.assert_allclose(y, right.numpy(), atol=3e-7)
    return found


def widths(graph: Graph) -> Counter[int]:
    """Count the linear layers by how many channels their results have."""
    linear = (node for node in graph.nodes if isinstance(node.op, Linear))
    return Counter(graph.values[node.output].shape[-1] for node in linear)


def inputs_of_attention(graph: Graph) -> tuple[str, ...]:
    (node,) = (node for node in graph.nodes if isinstance(node.op, Attention))
    return node.inputs


@pytest.mark.parametrize("bias", ["", "q", "qkv"])
@pytest.mark.parametrize("heads", [(4, 4, 4), (4, 2, 2)], ids=str)
def test_layers_of_one_input_become_one(heads: tuple[int, ...], bias: str) -> None:
    graph = joined(Heads(*heads, bias=bias), torch.randn(2, LENGTH, WIDTH))
    assert widths(graph) == {sum(heads) * DEPTH: 1, WIDTH: 1}
    assert len(set(inputs_of_attention(graph))) == 1


def test_keys_and_values_of_another_input_become_one() -> None:
    sizes = (2, LENGTH, WIDTH), (2, 2 * LENGTH, WIDTH)
    graph = joined(Heads(4, 4, 4, bias="v"), *map(torch.randn, sizes))
    assert widths(graph) == {8 * DEPTH: 1, 4 * DEPTH: 1, WIDTH: 1}
    q, k, v = inputs_of_attention(graph)
    assert q != k == v


def test_layers_that_others_read_stay() -> None:
    graph = joined(Heads(4, 4, 4, is_read=True), torch.randn(2, LENGTH, WIDTH))
    assert widths(graph) == {8 * DEPTH: 1, 4 * DEPTH: 1, WIDTH: 1}


def test_axes_that_go_on_from_row_to_row_stay_where_they_are() -> None:
    assert StridedView((2, 3, 4), (12, 4, 1), 12).in_rows(12, 20, 5) == StridedView(
        (2, 3, 4), (20, 4, 1), 25
    )
    assert StridedView((6, 4), (4, 1)).in_rows(12, 20, 5) is None
    assert StridedView((2, 2), (18, 1)).in_rows(12, 20, 5) is None


@given(
    rows=st.integers(1, 5),
    row=st.integers(1, 12),
    more=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    shape=st.tuples(*[st.integers(1, 4)] * 3),
    strides=st.tuples(*[st.integers(0, 30)] * 3),
    start=st.integers(0, 12),
)
def test_a_view_of_longer_rows_has_the_same_elements(
    rows: int,
    row: int,
    more: tuple[int, int],
    shape: tuple[int, int, int],
    strides: tuple[int, int, int],
    start: int,
) -> None:
    view = StridedView(shape, strides, start)
    memory = np.arange(rows * row).reshape(rows, row)
    begin, wide = more[0], row + sum(more)
    found = view.in_rows(row, wide, begin)
    if found is None or view.end > memory.size:
        return
    longer = np.full((rows, wide), -1)
    longer[:, begin : begin + row] = memory
    np.testing.assert_array_equal(found.of(longer), view.of(memory))
