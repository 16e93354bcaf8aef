"""What is right by PyTorch in float64: activations, and whole problems in every direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from convfind.problem import ActivationKind, ConvProblem
from convfind.types import Direction

torch: Any = pytest.importorskip("torch")
functional = torch.nn.functional

Array = np.ndarray[Any, Any]


def _power(x: Any, shift: float, scale: float, exponent: float) -> Any:
    base = shift + scale * x
    return torch.where(base <= 1e-6, 0.0, base.clamp(min=1e-6) ** exponent)


#: Functions of a tensor and the numbers of the kind.
ACTIVATIONS: Mapping[ActivationKind, Callable[..., Any]] = {
    ActivationKind.RELU: functional.relu,
    ActivationKind.CLIP: functional.hardtanh,
    ActivationKind.LEAKY: functional.leaky_relu,
    ActivationKind.ELU: functional.elu,
    ActivationKind.SIGMOID: torch.sigmoid,
    ActivationKind.TANH: lambda x, inner, outer: outer * torch.tanh(inner * x),
    ActivationKind.SILU: functional.silu,
    ActivationKind.HARD_SWISH: functional.hardswish,
    ActivationKind.HARD_SIGMOID: lambda x, scale, shift: (scale * x + shift).clamp(0, 1),
    ActivationKind.GELU_ERF: functional.gelu,
    ActivationKind.GELU_TANH: lambda x: functional.gelu(x, approximate="tanh"),
    ActivationKind.MISH: functional.mish,
    ActivationKind.SOFTPLUS: lambda x, scale: functional.softplus(x, beta=scale, threshold=700),
    ActivationKind.ABS: torch.abs,
    ActivationKind.POWER: _power,
}


def right_by_pytorch(problem: ConvProblem, values: Mapping[str, Array]) -> Array:
    """Compute a plain problem from its operands and, where it is read, its previous result.

    Arrays have their axes in the order of the layout, and so has the float64 result.
    """
    writes = problem.direction.writes
    tensors = {name: _logical(problem, name, array) for name, array in values.items()}
    sums = problem.alpha * _convolved(problem, tensors)
    if problem.bias:
        sums = sums + tensors["bias"].reshape(-1, *(1,) * problem.spatial_rank)
    added: Any = 0.0
    if problem.beta:
        added = problem.beta * tensors["z" if problem.add else writes]
    sums = sums if problem.add_last else sums + added
    if problem.activation is not None:
        sums = ACTIVATIONS[problem.activation.kind](sums, *problem.activation.numbers)
    result = np.asarray(sums + added if problem.add_last else sums)
    last = problem.tensor_layout(writes).channels_last
    return np.ascontiguousarray(np.moveaxis(result, 1, -1)) if last else result


def _logical(problem: ConvProblem, name: str, array: Array) -> Any:
    doubles = torch.tensor(np.asarray(array).astype(np.float64))
    if name == "bias" or not problem.tensor_layout(name).channels_last:
        return doubles
    return torch.movedim(doubles, -1, 1)


def _convolved(problem: ConvProblem, tensors: Mapping[str, Any]) -> Any:
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[problem.spatial_rank - 1]
    pads = [
        pad
        for pair in zip(reversed(problem.padding), reversed(problem.padding_end), strict=True)
        for pad in pair
    ]

    def forward(x: Any, w: Any) -> Any:
        how = {"stride": problem.stride, "dilation": problem.dilation, "groups": problem.groups}
        return convolve(functional.pad(x, pads), w, **how)

    if problem.direction is Direction.FORWARD:
        return forward(tensors["x"], tensors["w"])
    wanted = problem.direction.writes
    given = {
        name: tensors[name] if name != wanted else torch.zeros(problem.shape(name)).double()
        for name in ("x", "w")
    }
    given[wanted].requires_grad_()
    (gradient,) = torch.autograd.grad(forward(**given), given[wanted], tensors["y"])
    return gradient
