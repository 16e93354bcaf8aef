"""Positions that are embedded by turning halves of rows are one operation, and right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from networks_for_tests import exported
from torch import Tensor, nn

from convfind_networks import Graph, Network, evaluate
from convfind_networks.ops import Rotary, Transpose
from convfind_networks.passes import fuse_attention

# PyTorch warns of itself while it exports.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

HEADS, LENGTH, DEPTH = 3, 5, 8
Turn = Callable[[Tensor], Tensor]


def sliced(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def chunked(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def other_way(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((second, -first), -1)


class Turned(nn.Module):
    """Queries and keys at their positions, which are constants or come from outside."""

    angles: Tensor

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn
        angles = torch.arange(LENGTH)[:, None] / 100 ** (torch.arange(0, DEPTH, 2) / DEPTH)
        self.register_buffer("angles", torch.cat((angles, angles), -1))

    def forward(self, q: Tensor, k: Tensor, angles: Tensor | None = None) -> tuple[Tensor, Tensor]:
        known = self.angles if angles is None else angles
        cos, sin = known.cos(), known.sin()
        return q * cos + self.turn(q) * sin, sin * self.turn(k) + cos * k


def imported(turn: Turn, *more: Tensor) -> Graph:
    """Return the optimized graph, held to what PyTorch computes in float64."""
    torch.manual_seed(1)
    sizes = (2, HEADS, LENGTH, DEPTH), (2, 1, LENGTH, DEPTH)
    return _held(Turned(turn), *map(torch.randn, sizes), *more)


def _held(module: nn.Module, *inputs: Tensor) -> Graph:
    graph = Network.from_torch(exported(module, *inputs)).optimized()
    values = dict(zip(graph.inputs, (one.numpy() for one in inputs), strict=True))
    found = evaluate(graph, values).values()
    with torch.no_grad():
        expected = module.double()(*(one.double() for one in inputs))
    for y, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, right.numpy(), atol=1e-6)
    return graph


def kinds(graph: Graph) -> Counter[str]:
    return Counter(node.op.kind for node in graph.nodes if not node.op.is_view)


@pytest.mark.parametrize("turn", [sliced, chunked])
def test_rows_at_known_positions_are_turned_by_one_operation(turn: Turn) -> None:
    assert kinds(imported(turn)) == {"Rotary": 2}


def test_sines_from_outside_get_their_signs_once() -> None:
    graph = imported(sliced, torch.randn(2, 1, LENGTH, DEPTH))
    assert kinds(graph) == {"Rotary": 2, "Unary": 2, "Binary": 1}


def test_rows_that_are_turned_the_other_way_stay() -> None:
    assert not any(isinstance(node.op, Rotary) for node in imported(other_way).nodes)


class Heads(nn.Module):
    """Attention of queries and keys at their positions."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(HEADS * DEPTH, HEADS * DEPTH) for _ in range(3))
        self.turned = Turned(sliced)

    def forward(self, x: Tensor, angles: Tensor | None = None) -> tuple[Tensor, ...]:
        made = (one(x).view(len(x), -1, HEADS, DEPTH) for one in (self.q, self.k, self.v))
        q, k, v = (one.transpose(1, 2) for one in made)
        q, k = self.turned(q, k, angles)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (y.transpose(1, 2).flatten(2),)


@pytest.mark.parametrize("shape", [None, (2, 1, LENGTH, DEPTH), (LENGTH, DEPTH)], ids=str)
def test_heads_are_turned_where_they_lie(shape: tuple[int, ...] | None) -> None:
    inputs = [torch.randn(2, LENGTH, HEADS * DEPTH)]
    if shape is not None:
        inputs.append(torch.randn(shape))
    graph = fuse_attention(_held(Heads(), *inputs), lambda op, types: True)
    outside = {} if shape is None else {"Unary": 2, "Binary": 1}
    assert kinds(graph) == {"Linear": 3, "Rotary": 2, "Attention": 1, **outside}
    assert not any(isinstance(node.op, Transpose) for node in graph.nodes)
