"""Gradients behind activations, of biases, and of whole fused convolutions are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convfind
from convfind import ConvProblem
from convfind.errors import ProblemError
from convfind.problem import Activation, ActivationKind
from convfind.problem.activation_slope import slope_of_argument, slope_of_result, tells_slope
from convfind_operators import ElementType, EpilogueGradientProblem, FusedGradients

torch: Any = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]
Check = Callable[..., None]
functional = torch.nn.functional

#: Numbers that are not those of the kind, where it has any.
ACTIVATIONS = {
    ActivationKind.CLIP: Activation("clip", -0.5, 1.25),
    ActivationKind.LEAKY: Activation("leaky", 0.25),
    ActivationKind.ELU: Activation("elu", 1.5),
    ActivationKind.TANH: Activation("tanh", 0.75, 1.5),
    ActivationKind.SOFTPLUS: Activation("softplus", 2.0),
    ActivationKind.POWER: Activation("power", 0.5, 0.25, 1.5),
}
OF_ALL = [ACTIVATIONS.get(kind, Activation(kind)) for kind in ActivationKind]


def _power(x: Any, shift: float, scale: float, exponent: float) -> Any:
    base = shift + scale * x
    return torch.where(base <= 1e-6, 0.0, base.clamp(min=1e-6) ** exponent)


PYTORCH: Mapping[ActivationKind, Callable[..., Any]] = {
    ActivationKind.RELU: functional.relu,
    ActivationKind.CLIP: functional.hardtanh,
    ActivationKind.LEAKY: functional.leaky_relu,
    ActivationKind.ELU: functional.elu,
    ActivationKind.SIGMOID: torch.sigmoid,
    ActivationKind.TANH: lambda x, a, b: b * torch.tanh(a * x),
    ActivationKind.SILU: functional.silu,
    ActivationKind.HARD_SWISH: functional.hardswish,
    ActivationKind.HARD_SIGMOID: lambda x, *_: functional.hardsigmoid(x),
    ActivationKind.GELU_ERF: functional.gelu,
    ActivationKind.GELU_TANH: lambda x: functional.gelu(x, approximate="tanh"),
    ActivationKind.MISH: functional.mish,
    ActivationKind.SOFTPLUS: lambda x, a: functional.softplus(x, beta=a),
    ActivationKind.ABS: torch.abs,
    ActivationKind.POWER: _power,
}


@pytest.mark.parametrize("activation", OF_ALL, ids=lambda one: one.kind.value)
def test_slopes_are_pytorch_s(activation: Activation) -> None:
    x = torch.linspace(-9, 9, 1009, dtype=torch.float64, requires_grad=True)
    y = PYTORCH[activation.kind](x, *activation.numbers)
    y.sum().backward()
    expected, given = x.grad.numpy(), x.detach().numpy()
    np.testing.assert_allclose(activation(given), y.detach().numpy(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(slope_of_argument(activation, given), expected, atol=1e-9)
    if tells_slope(activation):
        of_result = slope_of_result(activation, activation(given))
        np.testing.assert_allclose(of_result, expected, atol=1e-9)


@pytest.mark.parametrize("kind", [ActivationKind.RELU, ActivationKind.CLIP, ActivationKind.LEAKY])
def test_slopes_at_a_kink_are_pytorch_s(kind: ActivationKind) -> None:
    activation = ACTIVATIONS.get(kind, Activation(kind))
    x = torch.tensor([-0.5, 0.0, 1.25], dtype=torch.float64, requires_grad=True)
    PYTORCH[kind](x, *activation.numbers).sum().backward()
    np.testing.assert_array_equal(slope_of_argument(activation, x.detach().numpy()), x.grad)


def test_results_of_some_activations_do_not_tell_their_slope() -> None:
    told = {one.kind for one in OF_ALL if tells_slope(one)}
    assert {"relu", "clip", "leaky", "sigmoid", "tanh"} < told
    assert not {"silu", "hard-swish", "gelu-erf", "mish", "abs", "power"} & told
    assert not tells_slope(Activation("leaky", -0.5))
    with pytest.raises(ProblemError, match="of_result"):
        EpilogueGradientProblem(x=(2, 3, 4), activation=Activation("silu"), of_result=True)


layouts = pytest.mark.parametrize("channels_last", [False, True], ids=["first", "last"])


@pytest.mark.parametrize("activation", OF_ALL, ids=lambda one: one.kind.value)
def test_the_gradient_of_every_activation_is_right(check: Check, activation: Activation) -> None:
    how: dict[str, Any] = {"activation": activation}
    check(EpilogueGradientProblem(x=(2, 19, 5, 7), channels_last=True, **how))
    if tells_slope(activation):
        check(EpilogueGradientProblem(x=(2, 19, 5, 7), of_result=True, **how))


@layouts
def test_sums_by_channel_are_right(check: Check, channels_last: bool) -> None:
    how: dict[str, Any] = {"channels_last": channels_last}
    relu = Activation("relu")
    for shape in ((3, 5, 70, 33), (1, 300, 3, 3), (65, 2, 9), (5, 17), (2, 1, 3, 4, 5)):
        check(EpilogueGradientProblem(x=shape, **how))
        check(EpilogueGradientProblem(x=shape, activation=relu, **how), not_finite=False)
        check(EpilogueGradientProblem(x=shape, activation=relu, bias=False, **how))


@layouts
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_types_are_right(check: Check, dtype: str, channels_last: bool) -> None:
    kind = ElementType(dtype)
    silu = Activation("silu")
    problem = EpilogueGradientProblem(
        x=(2, 21, 6, 7), activation=silu, dtype=kind, channels_last=channels_last
    )
    check(problem)


def test_a_batch_of_none_has_a_gradient_of_zero(check: Check) -> None:
    check(EpilogueGradientProblem(x=(0, 5, 3, 3), activation=Activation("relu")))


@pytest.fixture
def handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[convfind.Handle]:
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(tmp_path))
    with convfind.open("opencl:cpu") as opened:
        yield opened


def of_pytorch(problem: ConvProblem, tensors: Mapping[str, Array], dy: Array) -> dict[str, Array]:
    """The gradients in float64."""
    given = {
        name: torch.tensor(array.astype(np.float64), requires_grad=True)
        for name, array in tensors.items()
    }
    how: dict[str, Any] = {"stride": problem.stride, "dilation": problem.dilation}
    convolve = functional.conv2d
    if problem.mode == "transpose":
        convolve, how["output_padding"] = functional.conv_transpose2d, problem.output_padding
    sums = problem.alpha * convolve(
        *(given["x"], given["w"]), padding=problem.padding, groups=problem.groups, **how
    )
    sums = sums + given["bias"].reshape(-1, 1, 1) if problem.bias else sums
    sums = sums + given["z"] if problem.add and not problem.add_last else sums
    if problem.activation is not None:
        sums = PYTORCH[problem.activation.kind](sums, *problem.activation.numbers)
    y = sums + given["z"] if problem.add_last else sums
    y.backward(torch.tensor(dy.astype(np.float64)))
    return {name: tensor.grad.numpy() for name, tensor in given.items()}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("more", "of_result"),
    [
        ({"bias": True, "activation": "relu"}, True),
        ({"bias": True, "add": True, "activation": "silu", "alpha": 0.5}, False),
        ({"bias": True, "add": True, "activation": "silu", "add_last": True}, False),
        ({"bias": True, "stride": 2, "groups": 2}, False),
        ({"activation": "tanh", "mode": "transpose", "stride": 2, "bias": True}, True),
        ({}, False),
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
    tensors = {
        name: rng.standard_normal(names[name]).astype(np.float32) for name in problem.reads
    }
    dy = rng.standard_normal(problem.y_shape).astype(np.float32)
    expected = of_pytorch(problem, tensors, dy)
    found = handle.find(saving(problem, of_result)).best
    given = {name: tensors[name] for name in saving(problem, of_result).reads}
    saved = handle.run(found, **given) if problem.activation else None
    prepared = FusedGradients.of(problem, of_result=of_result).prepare(handle)
    results = prepared.run(x=tensors["x"], w=tensors["w"], dy=dy, saved=saved)
    assert results.keys() == expected.keys()
    for name, right in expected.items():
        np.testing.assert_allclose(handle.to_numpy(results[name]), right, atol=2e-4, rtol=1e-4)


def saving(problem: ConvProblem, of_result: bool) -> ConvProblem:
    """The forward pass that gives what the gradients want of it."""
    from dataclasses import replace

    if of_result:
        return problem
    adds = problem.add and not problem.add_last
    beta = problem.beta if adds else 0.0
    return replace(problem, activation=None, add=adds, add_last=False, beta=beta)


def test_what_gradients_do_not_go_with_is_refused() -> None:
    fused: dict[str, Any] = {"bias": True, "activation": "relu"}
    x, w = (2, 4, 6, 6), (4, 4, 3, 3)
    for problem, field in (
        (ConvProblem.backward_data(x, w, **fused), "direction"),
        (ConvProblem.forward(x, w, dtype="int8", bias=True), "dtype"),
        (ConvProblem.forward(x, w, add=True, beta=2, **fused), "beta"),
        (ConvProblem.forward(x, w, y_strides=(200, 40, 8, 1), **fused), "y_strides"),
    ):
        with pytest.raises(ProblemError, match=field):
            FusedGradients.of(problem)
    last = ConvProblem.forward(x, w, add=True, add_last=True, **fused)
    with pytest.raises(ProblemError, match="of_result"):
        FusedGradients.of(last, of_result=True)
    assert FusedGradients.of(ConvProblem.forward(x, w)).epilogue is None
