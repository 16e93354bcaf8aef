"""Encoder layers and attention that are one operator each where PyTorch keeps no gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from convfind_networks import Graph, Network, UnsupportedError, evaluate, optimize
from convfind_networks.passes import fuse_attention

# PyTorch warns of itself while it exports, and of layers that it would not compute so.
pytestmark = pytest.mark.filterwarnings(
    *("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:enable_nested_tensor")
)

BATCH, LENGTH, WIDTH, HEADS = 3, 5, 16, 2
_DRAWN = torch.Generator().manual_seed(0)
X, Y, Z = (torch.randn(BATCH, LENGTH, WIDTH, generator=_DRAWN) for _ in range(3))
BEFORE = torch.ones(LENGTH, LENGTH).triu(1) > 0
PADDED = torch.arange(LENGTH) >= torch.tensor([[5], [3], [1]])
EACH = torch.rand(BATCH, HEADS, LENGTH, LENGTH, generator=_DRAWN) > 0.6
EACH[..., 0] = False


def graph_of(module: nn.Module, *inputs: Any, operator: str, calls: int = 1) -> Graph:
    """Export a module with an operator in it, and hold graph and passes to PyTorch in float64."""
    with torch.no_grad():
        program = torch.export.export(module.eval(), inputs, strict=True)
        targets = [str(node.target) for node in program.graph.nodes]
        assert targets.count(f"aten.{operator}.default") == calls
        network = Network.from_torch(program)
        given = [one for one in inputs if isinstance(one, Tensor)]
        right = module.double()(*(one.double() if _is_float(one) else one for one in inputs))
        module.float()
    graph = network.graph()
    arrays = dict(zip(graph.inputs, (one.numpy() for one in given), strict=True))
    fused = fuse_attention(optimize(graph), lambda op, types: True)
    for made in (graph, fused):
        results = evaluate(made, arrays).values()
        for got, expected in zip(
            results, right if isinstance(right, tuple) else (right,), strict=True
        ):
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=1e-5)
    return fused


def _is_float(given: Any) -> bool:
    return isinstance(given, Tensor) and given.is_floating_point()


@pytest.mark.parametrize(("norm_first", "activation"), [(False, "gelu"), (True, "relu")])
@pytest.mark.parametrize(
    ("mask", "padding"),
    [
        (None, None),
        (BEFORE, None),
        (None, PADDED),
        (BEFORE, PADDED),
        (torch.zeros(LENGTH, LENGTH).masked_fill(BEFORE, -math.inf), None),
    ],
    ids=["seen", "before", "padded", "both", "numbers"],
)
def test_layers_are_attention_and_four_linear_layers(
    norm_first: bool, activation: str, mask: Tensor | None, padding: Tensor | None
) -> None:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 24, activation=activation, norm_first=norm_first, batch_first=True
    )
    for norm in (layer.norm1, layer.norm2):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    layer.norm1.eps = layer.norm2.eps = 0.1
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    fused = graph_of(
        encoder, X, mask, padding, False, operator="_transformer_encoder_layer_fwd", calls=2
    )
    kinds = ("Attention", "Linear", "LayerNorm", "Softmax", "MatMul", "Activate")
    assert [fused.count(kind) for kind in kinds] == [2, 8, 4, 0, 0, 0]


class Attending(nn.Module):
    """PyTorch's attention between linear layers, of one tensor or three, as its module calls it."""

    def __init__(
        self,
        mask_type: int | None = None,
        *,
        weights: bool = False,
        average: bool = False,
        results: int = 1,
    ) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        nn.init.normal_(self.layer.in_proj_bias)
        nn.init.normal_(self.layer.out_proj.bias)
        self.options, self.results = (weights, average, mask_type), results

    def forward(
        self,
        q: Tensor,
        mask: Tensor | None = None,
        k: Tensor | None = None,
        v: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        own = self.layer
        found: tuple[Tensor, ...] = torch._native_multi_head_attention(
            *(q, q if k is None else k, q if v is None else v, WIDTH, HEADS),
            *(own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias),
            mask,
            *self.options,
        )
        return found[: self.results]


_ATTENTION = "_native_multi_head_attention"


@pytest.mark.parametrize(
    ("mask", "mask_type"),
    [
        (None, None),
        (BEFORE, 0),
        (PADDED, 1),
        (EACH, 2),
        (EACH, 0),
        (EACH.float(), None),
        (PADDED * 0.5, 1),
    ],
)
def test_masks_hide_what_they_are_not_0_for(mask: Tensor | None, mask_type: int | None) -> None:
    fused = graph_of(Attending(mask_type), X, mask, operator=_ATTENTION)
    assert [fused.count(kind) for kind in ("Attention", "Linear", "MatMul")] == [1, 2, 0]


def test_queries_keys_and_values_may_be_of_three_tensors() -> None:
    fused = graph_of(Attending(), X, None, Y, Z, operator=_ATTENTION)
    assert [fused.count(kind) for kind in ("Attention", "Linear", "MatMul")] == [1, 4, 0]


@pytest.mark.parametrize("average", [False, True])
def test_weights_are_returned_where_they_are_wanted(average: bool) -> None:
    graph_of(Attending(1, weights=True, average=average, results=2), X, PADDED, operator=_ATTENTION)


def test_attention_whose_weights_nobody_reads_is_one_operation() -> None:
    fused = graph_of(Attending(1, weights=True, average=True), X, PADDED, operator=_ATTENTION)
    assert [fused.count(kind) for kind in ("Attention", "Linear", "Reduce")] == [1, 2, 0]


def test_queries_that_may_look_at_nothing_get_nan_as_of_pytorch() -> None:
    blind = PADDED.clone()
    blind[1] = True
    graph_of(Attending(1), X, blind, operator=_ATTENTION)


@pytest.mark.parametrize(
    ("mask", "mask_type"), [(PADDED, 0), (BEFORE, None), (BEFORE.view(1, 1, LENGTH, LENGTH), 2)]
)
def test_masks_that_pytorch_refuses_are_refused(mask: Tensor, mask_type: int | None) -> None:
    with torch.no_grad():
        program = torch.export.export(Attending(mask_type).eval(), (X, mask))
    with pytest.raises(UnsupportedError, match=f"with mask_type {mask_type}"):
        Network.from_torch(program).graph()


def test_weights_that_are_not_computed_are_refused() -> None:
    with torch.no_grad():
        program = torch.export.export(Attending(results=2).eval(), (X,))
    with pytest.raises(UnsupportedError, match="only the first results are computed"):
        Network.from_torch(program).graph()
