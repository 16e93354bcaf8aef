"""Exported modules of PyTorch compute what PyTorch computes in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from networks_for_tests import exported, mobilenet_v2, resnet50
from torch import nn
from torch.nn import functional as F

from convfind_networks import (
    Graph,
    ModelFormatError,
    Network,
    UnsupportedError,
    evaluate,
    optimize,
    problems_of,
)
from convfind_networks.from_torch.reading import runner_of

# PyTorch warns of itself while it exports.
pytestmark = pytest.mark.filterwarnings(
    *("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:The tensor attributes"),
    "ignore:var\\(\\)",  # of fewer elements than its correction
)

IMAGE, VECTORS = (2, 6, 9, 8), (2, 5, 6)


class Function(nn.Module):
    """A function as a module, with the modules that it calls."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleDict(modules)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, **dict(self.parts.items()))


def _written(x: torch.Tensor) -> Any:
    """Return copies of which parts were written in place."""
    one, two, three = x.clone(), x.clone(), x.clone()
    one[:, 1] = 0
    one[:, 2, ::2] = x[:, 0, ::2] * 2
    two[torch.tensor([1]), torch.tensor([0, 3])] = 5.0
    two[0].zero_().add_(1)
    three[x > 0] = -1.0
    three[:, :, 0].copy_(x[:, :, 1])
    return one, two, three


MODULES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "conv1d": (nn.Conv1d(6, 4, 3, padding=1, dilation=2), (2, 6, 9)),
    "conv3d": (nn.Conv3d(2, 4, (3, 1, 2), stride=(1, 2, 1)), (1, 2, 5, 6, 7)),
    "grouped": (nn.Conv2d(6, 6, 3, groups=3, padding="same", bias=False), IMAGE),
    "transposed": (nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1, groups=2), IMAGE),
    "transposed 1d": (nn.ConvTranspose1d(6, 4, 4, 3), (2, 6, 7)),
    "batch norm": (nn.Sequential(nn.Conv2d(6, 4, 1), nn.BatchNorm2d(4)), IMAGE),
    "batch norm by itself": (nn.BatchNorm2d(6, affine=False), IMAGE),
    "instance norm": (nn.InstanceNorm2d(6, affine=True), IMAGE),
    "group norm": (nn.GroupNorm(3, 6), IMAGE),
    "layer norm": (nn.LayerNorm((5, 6)), VECTORS),
    "lstm": (
        Function(lambda x, layer: layer(x)[0], layer=nn.LSTM(6, 4, 2, bidirectional=True)),
        VECTORS,
    ),
    "last states of an lstm": (
        Function(lambda x, layer: layer(x)[1], layer=nn.LSTM(6, 4, batch_first=True)),
        VECTORS,
    ),
    "gru": (
        Function(lambda x, layer: layer(x)[0], layer=nn.GRU(6, 4, bidirectional=True)),
        VECTORS,
    ),
    "rnn": (
        Function(lambda x, layer: layer(x)[0], layer=nn.RNN(6, 4, 2, nonlinearity="relu")),
        VECTORS,
    ),
    "rms norm": (nn.RMSNorm(6, eps=1e-5), VECTORS),
    "local response norm": (nn.LocalResponseNorm(3), IMAGE),
    "max pool": (nn.MaxPool2d(3, 2, 1, ceil_mode=True), IMAGE),
    "dilated max pool": (nn.MaxPool2d(2, 1, dilation=2), IMAGE),
    "average pool": (nn.AvgPool2d(3, 2, 1, ceil_mode=True), IMAGE),
    "average pool without pads": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    "average pool with divisor": (nn.AvgPool2d(2, divisor_override=3), IMAGE),
    "average pool 1d": (nn.AvgPool1d(2), (2, 6, 8)),
    "adaptive pool": (nn.AdaptiveAvgPool2d((3, 4)), IMAGE),
    "adaptive max pool to one": (Function(lambda x: F.adaptive_max_pool2d(x, 1)), IMAGE),
    "linear": (nn.Linear(6, 4), VECTORS),
    "attention": (
        Function(
            lambda x, attention: attention(x, x, x, need_weights=False)[0],
            attention=nn.MultiheadAttention(6, 2, batch_first=True),
        ),
        VECTORS,
    ),
    "encoder": (nn.TransformerEncoderLayer(6, 2, 8, activation="gelu", batch_first=True), VECTORS),
    "scaled attention": (Function(lambda x: F.scaled_dot_product_attention(x, x, x)), VECTORS),
    "bilinear": (nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "bilinear with corners": (nn.Upsample((5, 13), mode="bilinear", align_corners=True), IMAGE),
    "bicubic": (nn.Upsample(scale_factor=1.5, mode="bicubic"), IMAGE),
    "nearest": (nn.Upsample(scale_factor=2), IMAGE),
    "nearest 3d": (nn.Upsample((3, 4, 5)), (1, 2, 2, 3, 4)),
    "linear 1d": (nn.Upsample(scale_factor=3, mode="linear"), (2, 6, 4)),
    "shuffles": (nn.Sequential(nn.PixelUnshuffle(2), nn.PixelShuffle(2)), (1, 6, 4, 8)),
    "channel shuffle": (nn.ChannelShuffle(3), IMAGE),
    "pads": (nn.Sequential(nn.ReflectionPad2d(1), nn.ZeroPad2d((1, 0, 2, 0))), IMAGE),
    "dropout": (nn.Sequential(nn.Dropout(), nn.Dropout2d()), IMAGE),
    "prelu": (nn.PReLU(6), IMAGE),
    "weight norm": (nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 4, 3), dim=2), (2, 6, 9)),
    "embedding": (
        Function(lambda x, table: table(x.abs().to(torch.int64)), table=nn.Embedding(9, 3)),
        VECTORS,
    ),
}
ACTIVATIONS: list[nn.Module] = [
    *(nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-2, 0.5), nn.LeakyReLU(0.2), nn.ELU(0.7), nn.SELU()),
    *(nn.CELU(0.6), nn.Sigmoid(), nn.Tanh(), nn.SiLU(), nn.Hardswish(), nn.Hardsigmoid()),
    *(nn.GELU(), nn.GELU(approximate="tanh"), nn.Mish(), nn.Softplus(2.0), nn.Softsign()),
    *(nn.Softmax(1), nn.LogSoftmax(-1), nn.GLU(1)),
]
FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "arithmetic": lambda x: (2 - x) / (x * x + 1) + x.abs().sqrt() * 3 - torch.add(x, x, alpha=2),
    "functions": lambda x: torch.exp(-x.abs()) + torch.rsqrt(x * x + 1) + x.sin() * x.cos() + x**3,
    "bounds": lambda x: x.clamp(min=-0.5) + torch.maximum(x, -x).clamp(max=1) + x.clamp(-1, 1),
    "comparisons": lambda x: torch.where(x > 0, x, x * 2).masked_fill(x < -1, 7.0),
    "means": lambda x: (x.mean((2, 3)), x.sum(1, keepdim=True), x.amax((1, 2)), x.var(1)),
    "norms": lambda x: F.normalize(x, dim=1) + x.norm(dim=1, keepdim=True),
    "order": lambda x: (x.argmax(1), x.topk(2, dim=3)[0], x.cumsum(1), x.flip(2)),
    "parts": lambda x: torch.cat([x[:, 1:3], x[:, ::2, :, :], *x.chunk(3, 1)], 1),
    "slices": lambda x: (x[0], x[..., -2:], x.narrow(2, 1, 3), x.unbind(1)[2], x.select(3, -1)),
    "shapes": lambda x: (
        x.flatten(1).view(2, -1, 8).transpose(1, 2).unsqueeze(0).squeeze(0).permute(2, 0, 1)
    ),
    "stacks": lambda x: torch.stack([x, x.roll((1, -2), (2, 3))], 1),
    "repeats": lambda x: x[:, :1].expand(-1, 4, -1, -1).repeat(1, 2, 1, 1),
    "made": lambda x: x + torch.arange(8) * torch.ones_like(x) + torch.zeros(9, 8),
    "look-ups": lambda x: (x.index_select(1, torch.tensor([2, 0])), x[:, torch.tensor([1, 1])]),
    "groups": lambda x: torch.unflatten(x, 1, (2, 3)).sum(2),
    "products": lambda x: (x @ x.transpose(2, 3), torch.baddbmm(x[0], x[0], x[0][:, :8], beta=2)),
    "more functions": lambda x: (
        torch.log1p(x.abs())
        + torch.expm1(x / 9)
        + torch.log2(x.abs() + 1)
        + torch.tan(x / 9)
        + torch.trunc(x * 3)
        + x.square()
        + F.logsigmoid(x)
        + F.threshold(x, 0.2, 3.0)
        + F.hardshrink(x)
        + F.softshrink(x, 0.3)
        + torch.atan(x)
        + torch.multiply(x, 2)
    ),
    "functions near 0": lambda x: (torch.log1p(x * 1e-7) * 1e7, torch.expm1(x * 1e-7) * 1e7),
    "three operands": lambda x: (
        torch.addcmul(x, x, x, value=0.5) + torch.addcdiv(x, x, x.abs() + 1) + x.lerp(-x, 0.25)
    ),
    "rounded quotients": lambda x: (
        x // 0.3,
        x % 0.3,
        torch.fmod(x, 0.3),
        (x * 9).long() // 4,
        (x * 9).long() % 4,
        torch.div((x * 9).long(), 4, rounding_mode="trunc"),
        torch.div(x, 0.3, rounding_mode="trunc"),
    ),
    "whole numbers and reals": lambda x: (
        ((x * 3).long() > 0.5).int(),
        ((x * 3).long() <= -0.5).int(),
        ((x * 3).int() == x).int(),
        (x * 3).int().clamp(min=-0.5),
        ((x > 0) < 0.5).int(),
        (x[0, 0, 0].long() < x).int(),
    ),
    "truth values": lambda x: (
        (~(x > 0)).int(),
        ((x > 0) & (x < 1)).int(),
        ((x > 0) | (x < -1)).int(),
        ((x > 0) ^ (x > 1)).int(),
        (~(x * 9).int() ^ 5) & 6,
        (x > 2).any().int(),
        (x > -2).all(1).int(),
        torch.isfinite(1 / x.round()).int(),
        torch.logical_xor(x.round(), x > 0).int(),
    ),
    "deviations": lambda x: (
        x.std(1),
        *torch.var_mean(x, (2, 3), correction=0),
        *torch.std_mean(x, 1, keepdim=True),
        x.norm(p=float("inf"), dim=1),
        x[:, :2].prod(1),
        x.cumprod(1),
    ),
    "sorted": lambda x: (*x.sort(1), x.argsort(2, descending=True)),
    "more parts": lambda x: (
        x.tile(2, 1),
        x.repeat_interleave(3, 1),
        x.diff(dim=2),
        x.diff(n=2, prepend=x[..., :1]),
        x.unfold(2, 4, 3),
        x.diagonal(1, 1, 3),
        *x.tensor_split(4, 1),
        *x.tensor_split((2, 5), 2),
        x.movedim((0, 3), (2, 0)),
        x.swapaxes(1, -1),
        x.roll(5),
        x.narrow(2, -3, 2),
        x[:1].expand_as(x),
        x.view_as(x[:, None]).reshape_as(x),
    ),
    "replaced parts": lambda x: (
        x.select_scatter(x[:, 0] * 2, 1, 2),
        x.slice_scatter(x[:, :2], 1, 3, 5),
        x.slice_scatter(x[:, :3], 1, 0, 6, 2),
        torch.fill(x, 2.0),
        x.new_ones(3, 2),
        x.new_full((2, 4), 7.0),
        x.new_zeros((5,)),
        torch.linspace(-1, 2, 5, dtype=torch.float64),
        torch.eye(3, 4),
    ),
    "written parts": lambda x: _written(x),
    "more look-ups": lambda x: (
        x[:, torch.tensor([[0], [2]]), torch.tensor([1, 3])],
        x[..., torch.tensor([0, 1]), torch.tensor([1, 3])],
        x.take_along_dim(torch.tensor([[[[1]], [[0]]]]), 1),
        x.scatter(1, torch.tensor([[[[1]], [[3]]]]), 2.0),
        x.scatter_add(1, torch.tensor([[[[1]], [[1]]]]), x),
        x.index_add(1, torch.tensor([2, 2]), x[:, :2], alpha=0.5),
        x.index_fill(1, torch.tensor([2, 0]), 3.0),
        F.one_hot((x.abs() * 2).long().clamp(max=4), 5),
    ),
    "blocks": lambda x: (
        F.unfold(x, (3, 2), 2, 1, (2, 1)),
        F.fold(F.unfold(x, (3, 2), padding=1), (9, 8), (3, 2), padding=1),
    ),
    "sums of products": lambda x: (
        torch.einsum("nchw,nkhw->nck", x, x),
        torch.einsum("nchw,kc->nkhw", x, x[0, :, :6, 0]),
        torch.einsum("...hw,...vw->...hv", x, x[:1]),
        torch.einsum("nchw,c->h", x, x[0, :, 0, 0]),
        torch.outer(x[0, 0, 0], x[1, 0, 0]),
        torch.mv(x[0, 0], x[0, 1, 0]),
        torch.addmv(x[0, 0, :, 0], x[0, 0], x[0, 1, 0], beta=2),
        torch.dot(x[0, 0, 0], x[0, 0, 1]),
    ),
    "masked attention": lambda x: (
        F.scaled_dot_product_attention(x, x, x, x[:, :1, :, :1] > x[:1, :1, :, 0, None].mT),
        F.scaled_dot_product_attention(
            x, x, x, x.new_zeros(9, 9).masked_fill(x[0, 0, :, :1] < 0, -math.inf)
        ),
        F.scaled_dot_product_attention(x, x[:, :, :7], x[:, :, :7], is_causal=True),
        F.scaled_dot_product_attention(x, x[:, :2], x[:, 3:5], enable_gqa=True),
        F.scaled_dot_product_attention(x, x[:, :, :0], x[:, :, :0]),
        F.scaled_dot_product_attention(x[..., :0], x[..., :0], x),
    ),
    "statistics of the batch": lambda x: F.batch_norm(x, None, None, x[0, :, 0, 0], training=True),
    "unequal windows": lambda x: (
        F.adaptive_avg_pool2d(x, (5, 11)),
        F.adaptive_max_pool2d(x, (9, 3)),
        F.adaptive_avg_pool1d(x[0], 5),
    ),
    "nearest exact": lambda x: (
        F.interpolate(x, (5, 13), mode="nearest-exact"),
        F.interpolate(x, scale_factor=2.0, mode="nearest-exact"),
    ),
    "antialiased": lambda x: (
        F.interpolate(x, (4, 3), mode="bilinear", antialias=True),
        F.interpolate(x, (5, 13), mode="bicubic", antialias=True),
        F.interpolate(x, scale_factor=0.6, mode="bicubic", antialias=True),
    ),
    "sampled": lambda x: tuple(
        F.grid_sample(x, x[..., :2] * 0.7, mode, border, align_corners=corners)
        for mode, border, corners in (
            ("bilinear", "zeros", False),
            ("bicubic", "border", True),
            ("nearest", "zeros", True),
            ("bilinear", "reflection", False),
        )
    ),
    "edges of definitions": lambda x: (
        torch.div(x.round(), 0.5 * x[:, :, :1], rounding_mode="floor"),
        torch.clamp(x, 1.0, -1.0),
        F.threshold(x.masked_fill(x > 1, math.nan), 0.1, 9.0),
        F.softplus(x, 2.0, 1.0),
        torch.square(x > 0),
        torch.index_select(x, 1, torch.tensor(2)),
        torch.argmax(x, keepdim=True),
        torch.argmin(x),
        torch.var(x[:, :2], 1, correction=3),
        torch.addmm(x[0, 0, :8, :8] / 0, x[0, 0].mT, x[0, 1], beta=0),
        torch.cat((x, x > 0), 1),
        torch.stack((x[0] > 0, x[0] + 0.5)),
    ),
    "squeeze-excite": lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)),
}


def assert_like_torch(module: nn.Module, shape: tuple[int, ...]) -> Graph:
    """Import a module, hold graph and passes to PyTorch in float64; return the graph."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    network = Network.from_torch(exported(module, x))
    (one,) = network.inputs
    graph = network.graph()
    expected = module.double()(x.double())
    module.float()
    arrays = [
        a.detach().numpy() for a in (expected if isinstance(expected, tuple) else (expected,))
    ]
    for made in (graph, optimize(graph)):
        results = evaluate(made, {one.name: x.numpy()})
        for got, array in zip(results.values(), arrays, strict=True):
            assert got.shape == array.shape
            np.testing.assert_allclose(got, array, rtol=1e-5, atol=1e-5)
    return graph


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    assert_like_torch(*MODULES[name])


@pytest.mark.parametrize("module", ACTIVATIONS, ids=str)
def test_activations(module: nn.Module) -> None:
    assert_like_torch(module, IMAGE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    assert_like_torch(Function(FUNCTIONS[name]), IMAGE)


def test_resnet50_is_53_convolutions_2_pools_and_a_linear_layer() -> None:
    graph = optimize(assert_like_torch(resnet50(narrow=8), (1, 3, 64, 64)))
    kinds = ("Convolution", "MaxPool", "GlobalPool", "Linear", "Reshape")
    assert [graph.count(kind) for kind in kinds] == [53, 1, 1, 1, 1]
    assert len(graph.nodes) == 57
    texts = [str(node.op) for node in graph.nodes]
    assert sum("epilogue=bias+z+relu" in text for text in texts) == 16
    assert sum("epilogue=bias+relu" in text for text in texts) == 33


def test_mobilenet_v2_is_52_convolutions_a_pool_and_a_linear_layer() -> None:
    graph = optimize(assert_like_torch(mobilenet_v2(), (1, 3, 32, 32)))
    kinds = ("Convolution", "GlobalPool", "Linear", "Reshape")
    assert [graph.count(kind) for kind in kinds] == [52, 1, 1, 1]
    assert len(graph.nodes) == 55
    texts = [str(node.op) for node in graph.nodes]
    assert sum("epilogue=bias+clip(0, 6)" in text for text in texts) == 35
    assert sum("epilogue=bias+z]" in text for text in texts) == 10
    problems = problems_of(graph, channels_last=True)
    assert sum(problems.values()) == 52
    assert all(problem.layout.channels_last for problem in problems)


def test_a_dimension_may_be_open() -> None:
    module, example = (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(2)).eval(),
        torch.zeros(2, 3, 8, 8),
    )
    batch = torch.export.Dim("batch")
    program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},))
    network = Network.from_torch(program)
    (one,) = network.inputs
    assert one.dims is not None
    assert one.dims[1:] == (3, 8, 8)
    graph = network.graph({str(one.dims[0]): 5})
    assert [graph.values[name].shape for name in graph.outputs.values()] == [(5, 4, 36)]


def test_bfloat16_weights_are_taken_over() -> None:
    program = exported(nn.Conv2d(3, 4, 1).bfloat16(), torch.zeros(1, 3, 2, 2, dtype=torch.bfloat16))
    graph = Network.from_torch(program).graph()
    assert {value.dtype.name for value in graph.values.values()} == {"bfloat16"}


def test_everything_that_is_not_supported_is_listed_at_once() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.fft.fft(x).abs() + torch.special.bessel_j0(x) + torch.relu(x)

    with pytest.raises(UnsupportedError) as caught:
        Network.from_torch(exported(Function(function), torch.zeros(2, 3))).graph()
    operators = [one.operator for one in caught.value.unsupported]
    assert any("fft" in one for one in operators)
    assert any("bessel_j0" in one for one in operators)
    assert not any("relu" in one for one in operators)


def test_quotients_are_rounded_down_as_pytorch_has_them() -> None:
    """The nearest float to the quotient of 1 and the float 0.1 is 10, and yet 0.1 fits 9 times."""
    a = torch.tensor([1.0, 0.3, -1.0, 0.0, 5.0, -5.0, math.inf, -1.0])
    b = torch.tensor([0.1, 0.1, 0.1, -2.0, 0.0, -0.0, 1.0, math.inf])
    x = torch.stack((a, b))
    function = Function(lambda x: torch.div(x[0], x[1], rounding_mode="floor"))
    network = Network.from_torch(exported(function, x))
    (one,) = network.inputs
    (got,) = evaluate(network.graph(), {one.name: x.numpy()}).values()
    np.testing.assert_array_equal(got, function(x).numpy())


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_norms_by_the_root_of_squares_have_pytorchs_usual_epsilon(name: str) -> None:
    """Small numbers are where it matters; squares of 16-bit types are added up in float32."""
    x = torch.full((2, 4), 1e-3, dtype=getattr(torch, name))
    function = Function(lambda x: F.rms_norm(x, (4,)))
    graph = Network.from_torch(exported(function, x)).graph()
    given = dict.fromkeys(graph.inputs, x.double().numpy())
    (got,) = evaluate(graph, given).values()
    np.testing.assert_allclose(got.astype(float), function(x).double().numpy(), rtol=4e-3)


def test_rounding_to_decimals_is_not_taken_for_rounding() -> None:
    function = Function(lambda x: torch.round(x, decimals=1))
    with pytest.raises(UnsupportedError, match="decimals"):
        Network.from_torch(exported(function, torch.zeros(2))).graph()


def test_a_program_that_changes_what_it_is_given_is_refused() -> None:
    class Counting(nn.Module):
        calls: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x.mul_(2) + self.calls

    with pytest.raises(UnsupportedError) as caught:
        Network.from_torch(exported(Counting(), torch.zeros(2, 3))).graph()
    assert [(one.node, one.reason) for one in caught.value.unsupported] == [
        (name, "it changes an input or a buffer") for name in ("calls", "x")
    ]


def test_arguments_that_the_export_fixed_are_no_inputs(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        def forward(
            self, x: torch.Tensor, other: torch.Tensor | None, factor: int, *, more: torch.Tensor
        ) -> torch.Tensor:
            return x * factor + more if other is None else other

    x, more = torch.randn(2, 3), torch.randn(3)
    program = torch.export.export(Scaled(), (x, None, 3), {"more": more})
    network = Network.from_torch(program)
    assert [one.name for one in network.inputs] == ["x", "more"]
    (y,) = evaluate(network.graph(), {"x": x.numpy(), "more": more.numpy()}).values()
    np.testing.assert_allclose(y, x * 3 + more, rtol=1e-6)
    torch.export.save(program, tmp_path / "model.pt2")
    run = runner_of(tmp_path / "model.pt2", [x.numpy(), more.numpy()], torch.get_num_threads())
    torch.testing.assert_close(run(), x * 3 + more)


def test_a_module_is_no_exported_program() -> None:
    with pytest.raises(ModelFormatError, match=r"give what torch\.export\.export returns"):
        Network.from_torch(nn.ReLU())
