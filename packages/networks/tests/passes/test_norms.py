"""Layer and RMS norms that models spell out become operations again, and compute the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from networks_for_tests import exported
from torch import Tensor, nn

from convfind_networks import Graph, Network, evaluate
from convfind_networks.ops import LayerNorm, RMSNorm

# PyTorch warns of itself while it exports.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

WIDTH = 24
Formula = Callable[[Tensor, Tensor, Tensor], Tensor]


class Norm(nn.Module):
    """A formula of x, a factor and an addend for each channel."""

    def __init__(self, formula: Formula) -> None:
        super().__init__()
        self.formula = formula
        self.w, self.b = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.formula(x, self.w, self.b)


def llama(x: Tensor, w: Tensor, _: Tensor) -> Tensor:
    wide = x.float()
    return w * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def gemma(x: Tensor, w: Tensor, _: Tensor) -> Tensor:
    wide = x.float()
    norm = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (norm * (1 + w.float())).type_as(x)


def divided(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return x / (1e-3 + (x * x).mean((1, 2), keepdim=True)).sqrt() * w + b


def without_factor(x: Tensor, _: Tensor, __: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def bert(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return w * (centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()) + b


def wide_bert(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    return b + w * (centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()).to(x.dtype)


NORMS: dict[str, tuple[Formula, type, int]] = {
    "llama": (llama, RMSNorm, 1),
    "divided": (divided, RMSNorm, 2),
    "without factor": (without_factor, RMSNorm, 1),
    "bert": (bert, LayerNorm, 1),
    "wide bert": (wide_bert, LayerNorm, 1),
}


def imported(formula: Formula, dtype: torch.dtype = torch.float32) -> Graph:
    """Return the optimized graph of a formula, held to what PyTorch computes in float64."""
    torch.manual_seed(1)
    module, x = Norm(formula).to(dtype), (3 * torch.randn(2, 5, WIDTH) + 1).to(dtype)
    graph = Network.from_torch(exported(module, x)).optimized()
    (name,) = graph.inputs
    (y,) = evaluate(graph, {name: x.float().numpy().astype(graph.values[name].dtype)}).values()
    with torch.no_grad():
        right = module.double()(x.double()).float().numpy()
    unit = torch.finfo(dtype).eps
    np.testing.assert_allclose(y.astype(np.float32), right, atol=8 * unit, rtol=4 * unit)
    return graph


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("formula", "kind", "count"), NORMS.values(), ids=NORMS)
def test_a_norm_that_is_spelled_out_is_one_operation(
    formula: Formula, kind: type, count: int, dtype: torch.dtype
) -> None:
    nodes = [node for node in imported(formula, dtype).nodes if not node.op.is_view]
    assert isinstance(nodes[0].op, kind)
    assert len(nodes) == count


def test_factors_that_a_narrow_type_would_round_stay_wide() -> None:
    assert len(imported(gemma).nodes) == 1
    graph = imported(gemma, torch.float16)
    kinds = [node.op.kind for node in graph.nodes]
    assert kinds == ["Cast", "RMSNorm", "Cast"]


def without_keeping(x: Tensor, _: Tensor, __: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-5)


def of_another(x: Tensor, w: Tensor, _: Tensor) -> Tensor:
    return (x + w) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def cubed(x: Tensor, _: Tensor, __: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(4).mean(-1, keepdim=True) + 1e-5)


def of_rows(x: Tensor, _: Tensor, __: Tensor) -> Tensor:
    return without_factor(x, x, x) * x[:, :1, :1]


@pytest.mark.parametrize("formula", [without_keeping, of_another, cubed])
def test_what_is_no_norm_stays(formula: Formula) -> None:
    assert not any(isinstance(node.op, (LayerNorm, RMSNorm)) for node in imported(formula).nodes)


def of_images(x: Tensor, _: Tensor, __: Tensor) -> Tensor:
    return without_factor(x.view(2, 5, 4, 6), x, x).view(x.shape)


def of_positions(x: Tensor, _: Tensor, __: Tensor) -> Tensor:
    images = x.view(2, 5, 4, 6)
    return (images / (images.square().mean((2, 3), keepdim=True) + 1e-5).sqrt()).view(x.shape)


@pytest.mark.parametrize(("formula", "count"), [(of_images, 1), (of_positions, 0)])
def test_norms_over_positions_of_images_stay_formulas(formula: Formula, count: int) -> None:
    nodes = imported(formula).nodes
    assert sum(isinstance(node.op, RMSNorm) for node in nodes) == count


def test_a_factor_that_is_no_constant_stays() -> None:
    nodes = imported(of_rows).nodes
    assert sum(isinstance(node.op, RMSNorm) for node in nodes) == 1
    assert len(nodes) > 1
