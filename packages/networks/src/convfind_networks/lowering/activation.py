"""Activations in core's words; those that kernels do not have are refused."""

from __future__ import annotations

import math

from convfind.errors import ConvfindError
from convfind.problem import Activation as KernelActivation
from convfind_networks.errors import GraphError
from convfind_networks.ops import Activation, ActivationKind

#: Kinds that kernels have with the same numbers, by the words of core.
_KINDS = {
    ActivationKind.RELU: "relu",
    ActivationKind.LEAKY_RELU: "leaky",
    ActivationKind.ELU: "elu",
    ActivationKind.SIGMOID: "sigmoid",
    ActivationKind.HARD_SIGMOID: "hard-sigmoid",
    ActivationKind.TANH: "tanh",
    ActivationKind.HARD_SWISH: "hard-swish",
    ActivationKind.GELU: "gelu-erf",
    ActivationKind.GELU_TANH: "gelu-tanh",
    ActivationKind.MISH: "mish",
    ActivationKind.SOFTPLUS: "softplus",
    ActivationKind.ABS: "abs",
}


def kernel_activation(activation: Activation) -> KernelActivation:
    """Return an activation as problems have it.

    Raises:
        GraphError, ProblemError: kernels do not have it, as a clip without one of its bounds.
    """
    kind, numbers = activation.kind, activation.numbers
    if kind is ActivationKind.CLIP:
        if numbers == (0.0, math.inf):
            return KernelActivation("relu")
        return KernelActivation("clip", *numbers)
    if kind is ActivationKind.SILU and numbers == (1.0,):
        return KernelActivation("silu")
    if kind not in _KINDS:
        raise GraphError(f"kernels have no activation {activation}")
    return KernelActivation(_KINDS[kind], *numbers)


def is_kernels(activation: Activation) -> bool:
    """Tell whether kernels have an activation."""
    try:
        kernel_activation(activation)
    except ConvfindError:
        return False
    return True
