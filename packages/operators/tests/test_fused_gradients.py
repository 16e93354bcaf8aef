"""Gradients behind activations, and their sums by channel, are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convfind import ConvProblem
from convfind.errors import ProblemError
from convfind.problem import Activation, ActivationKind
from convfind.problem.activation_slope import tells_slope
from convfind_operators import ElementType, EpilogueGradientProblem, FusedGradients

Check = Callable[..., None]
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


def test_the_error_of_a_power_is_known_where_nothing_is_left_of_it() -> None:
    how: dict[str, Any] = {"activation": Activation("power", 0.5, 0.25, 1.5), "bias": True}
    problem = EpilogueGradientProblem(x=(1, 2, 3), **how)
    x = np.array([[[1.0, -np.inf, 2.0], [1.0, 2.0, 3.0]]])
    inputs = {"x": x, "dy": np.ones_like(x)}
    allowed = problem.allowed_error(inputs, problem.reference(inputs))
    assert allowed["dx"][0, 0, 1] == 0
    assert (allowed["dbias"] < 1e-5).all()


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
