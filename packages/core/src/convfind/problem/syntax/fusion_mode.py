"""The epilogue of a fusion plan of MIOpenDriver, such as ``CBAInfer -F 4 -m 3``.

The modes spell their steps: C a convolution, B a bias, N a batch norm for inference, A an
activation. A batch norm by channel is folded into weights and bias when a network is compiled, so
that its problem is one with a bias.
"""

from __future__ import annotations

from typing import Any, Final

from convfind.errors import ProblemError
from convfind.problem.activation import Activation, ActivationKind
from convfind.problem.syntax.sizes import parse_size

_MODES: Final = ("cbna", "cna", "na", "cn", "cba", "ca", "cb")
_SPATIAL: Final = 1  # of bnMode: a scale and a shift for each channel

#: MIOpen's activation modes by number: each kind, and which of alpha, beta and gamma it has.
_ACTIVATIONS: Final[tuple[tuple[ActivationKind | None, tuple[str, ...]], ...]] = (
    (None, ()),
    (ActivationKind.SIGMOID, ()),
    (ActivationKind.TANH, ("alpha", "beta")),
    (ActivationKind.RELU, ()),
    (ActivationKind.SOFTPLUS, ()),
    (ActivationKind.ABS, ()),
    (ActivationKind.POWER, ("alpha", "beta", "gamma")),
    (ActivationKind.CLIP, ("alpha",)),
    (ActivationKind.LEAKY, ("alpha",)),
    (ActivationKind.ELU, ("alpha",)),
)


def epilogue_of(values: dict[str, str]) -> dict[str, Any]:
    """Return ``bias`` and ``activation`` as a problem takes them, from the values of flags.

    Raises:
        ProblemError: there is no convolution in the plan, a batch norm that no bias can stand for,
            or an unknown mode.
    """
    number = parse_size("fusion_mode", values["fusion_mode"])
    if number >= len(_MODES) or not _MODES[number].startswith("c"):
        legal = ", ".join(f"{n} ({mode})" for n, mode in enumerate(_MODES) if mode[0] == "c")
        raise ProblemError("fusion_mode", number, legal)
    steps = _MODES[number]
    if "n" in steps and parse_size("bnMode", values["bnMode"]) != _SPATIAL:
        raise ProblemError(
            "bnMode", values["bnMode"], "1 (spatial): a norm of each activation is no bias"
        )
    activation = _activation(values) if "a" in steps else None
    return {"bias": "b" in steps or "n" in steps, "activation": activation}


def _activation(values: dict[str, str]) -> Activation | None:
    mode = parse_size("activMode", values["activMode"])
    if mode >= len(_ACTIVATIONS):
        raise ProblemError("activMode", mode, f"0 to {len(_ACTIVATIONS) - 1}")
    kind, names = _ACTIVATIONS[mode]
    if kind is None:
        return None
    numbers = [float(values[name]) for name in names]
    if kind is ActivationKind.CLIP:
        numbers.insert(0, 0.0)
    return Activation(kind, *numbers)
