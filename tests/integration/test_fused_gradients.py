"""Slopes of activations, and gradients of whole fused convolutions, are PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pytorch_for_tests import ACTIVATIONS, torch

import convfind
from convfind import ConvProblem
from convfind.problem import Activation, ActivationKind
from convfind.problem.activation_slope import slope_of_argument, slope_of_result, tells_slope
from convfind.settings import Settings
from convfind_operators import FusedGradients

Array = np.ndarray[Any, Any]
#: Solvers that compile in no time: of the others there are tests enough.
QUICK: dict[str, Any] = {
    "mode": "FAST",
    "solvers": [
        *("direct-naive-fwd", "direct-naive-bwd-data", "direct-naive-bwd-weights"),
        "operators-epilogue-gradient",
    ],
}

#: Numbers that are not those of the kind, where it has any.
NUMBERED = {
    ActivationKind.CLIP: Activation("clip", -0.5, 1.25),
    ActivationKind.LEAKY: Activation("leaky", 0.25),
    ActivationKind.ELU: Activation("elu", 1.5),
    ActivationKind.TANH: Activation("tanh", 0.75, 1.5),
    ActivationKind.SOFTPLUS: Activation("softplus", 2.0),
    ActivationKind.POWER: Activation("power", 0.5, 0.25, 1.5),
}


def activation_of(kind: ActivationKind) -> Activation:
    return NUMBERED.get(kind, Activation(kind))


@pytest.mark.parametrize("kind", ActivationKind)
def test_slopes_are_pytorch_s(kind: ActivationKind) -> None:
    activation = activation_of(kind)
    x = torch.linspace(-9, 9, 1010, dtype=torch.float64, requires_grad=True)
    y = ACTIVATIONS[kind](x, *activation.numbers)
    y.sum().backward()
    expected, given = x.grad.numpy(), x.detach().numpy()
    np.testing.assert_allclose(activation(given), y.detach().numpy(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(slope_of_argument(activation, given), expected, atol=1e-9)
    if tells_slope(activation):
        of_result = slope_of_result(activation, activation(given))
        np.testing.assert_allclose(of_result, expected, atol=1e-9)


@pytest.mark.parametrize("kind", [ActivationKind.RELU, ActivationKind.CLIP, ActivationKind.LEAKY])
def test_slopes_at_a_kink_are_pytorch_s(kind: ActivationKind) -> None:
    activation = activation_of(kind)
    x = torch.tensor([-0.5, 0.0, 1.25], dtype=torch.float64, requires_grad=True)
    ACTIVATIONS[kind](x, *activation.numbers).sum().backward()
    np.testing.assert_array_equal(slope_of_argument(activation, x.detach().numpy()), x.grad)


@pytest.fixture(scope="module")
def handle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[convfind.Handle]:
    settings = Settings(user_db_path=tmp_path_factory.mktemp("database"))
    with convfind.open("opencl:cpu", settings=settings) as opened:
        yield opened


def of_pytorch(problem: ConvProblem, tensors: Mapping[str, Array], dy: Array) -> dict[str, Array]:
    """The gradients in float64."""
    given = {
        name: torch.tensor(array.astype(np.float64), requires_grad=True)
        for name, array in tensors.items()
    }
    how: dict[str, Any] = {"stride": problem.stride, "dilation": problem.dilation}
    convolve = torch.nn.functional.conv2d
    if problem.mode == "transpose":
        convolve, how["output_padding"] = (
            torch.nn.functional.conv_transpose2d,
            problem.output_padding,
        )
    sums = problem.alpha * convolve(
        *(given["x"], given["w"]), padding=problem.padding, groups=problem.groups, **how
    )
    sums = sums + given["bias"].reshape(-1, 1, 1) if problem.bias else sums
    sums = sums + given["z"] if problem.add and not problem.add_last else sums
    if problem.activation is not None:
        sums = ACTIVATIONS[problem.activation.kind](sums, *problem.activation.numbers)
    y = sums + given["z"] if problem.add_last else sums
    y.backward(torch.tensor(dy.astype(np.float64)))
    return {name: tensor.grad.numpy() for name, tensor in given.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "more", "of_result"),
    [
        ("NHWC", {"bias": True, "activation": "relu"}, True),
        ("NCHW", {"bias": True, "add": True, "activation": "silu", "alpha": 0.5}, False),
        ("NHWC", {"bias": True, "add": True, "activation": "silu", "add_last": True}, False),
        ("NCHW", {"bias": True, "stride": 2, "groups": 2}, False),
        ("NHWC", {"activation": "tanh", "mode": "transpose", "stride": 2, "bias": True}, True),
        ("NCHW", {}, False),
    ],
)
def test_gradients_of_a_fused_convolution_are_pytorch_s(
    handle: convfind.Handle, layout: str, more: dict[str, Any], of_result: bool
) -> None:
    groups = more.get("groups", 1)
    shape = (8, 6 // groups, 3, 3) if more.get("mode") != "transpose" else (6, 8, 3, 3)
    problem = ConvProblem.forward((2, 6, 9, 10), shape, padding=1, layout=layout, **more)
    rng = np.random.default_rng(3)
    names = {"x": problem.x_shape, "w": shape, "bias": (8,), "z": problem.y_shape}
    tensors = {name: rng.standard_normal(names[name]).astype(np.float32) for name in problem.reads}
    dy = rng.standard_normal(problem.y_shape).astype(np.float32)
    expected = of_pytorch(problem, tensors, dy)
    found = handle.find(saving(problem, of_result), **QUICK).best
    given = {name: tensors[name] for name in saving(problem, of_result).reads}
    saved = handle.run(found, **given) if problem.activation else None
    prepared = FusedGradients.of(problem, of_result=of_result).prepare(handle, **QUICK)
    results = prepared.run(x=tensors["x"], w=tensors["w"], dy=dy, saved=saved)
    assert results.keys() == expected.keys()
    for name, right in expected.items():
        np.testing.assert_allclose(handle.to_numpy(results[name]), right, atol=2e-4, rtol=1e-4)


def saving(problem: ConvProblem, of_result: bool) -> ConvProblem:
    """The forward pass that gives what the gradients want of it."""
    if of_result:
        return problem
    adds = problem.add and not problem.add_last
    beta = problem.beta if adds else 0.0
    return replace(problem, activation=None, add=adds, add_last=False, beta=beta)
