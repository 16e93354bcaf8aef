"""Activations as values: spelling, numbers, functions, slopes."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from convfind.errors import ProblemError
from convfind.problem import Activation, ActivationKind

#: Some with numbers that are not the defaults.
ACTIVATIONS = (
    *map(Activation, ActivationKind),
    Activation("clip", -0.5, 2.5),
    Activation("leaky", -0.25),
    Activation("leaky", 3.0),
    Activation("elu", 1.5),
    Activation("tanh", 0.5, -1.75),
    Activation("hard-sigmoid", -0.2, 0.4),
    Activation("softplus", 0.5),
    Activation("power", 1.0, 2.0, 1.5),
    Activation("power", 0.25, -1.0, 0.5),
    Activation("power", 2.0, 1.0, 0.0),
    Activation("power", 3.0, 0.5, -1.0),
)


def value(kind: str, x: float, *numbers: float) -> float:
    return float(Activation(kind, *numbers)(x))


def test_each_is_the_function_of_its_description() -> None:
    for x in (-9.0, -3.5, -1.0, -0.125, 0.0, 0.375, 1.0, 2.5, 7.0):
        sigmoid = 1 / (1 + math.exp(-x))
        expected = {
            ("relu",): max(x, 0.0),
            ("clip", -2.0, 3.0): min(max(x, -2.0), 3.0),
            ("leaky", 0.25): x if x >= 0 else x / 4,
            ("elu", 1.5): x if x >= 0 else 1.5 * (math.exp(x) - 1),
            ("sigmoid",): sigmoid,
            ("tanh", 0.5, 1.75): 1.75 * math.tanh(x / 2),
            ("silu",): x * sigmoid,
            ("hard-swish",): x * min(max(x / 6 + 0.5, 0.0), 1.0),
            ("hard-sigmoid", 0.2, 0.4): min(max(x / 5 + 0.4, 0.0), 1.0),
            ("gelu-erf",): x * (1 + math.erf(x / math.sqrt(2))) / 2,
            ("gelu-tanh",): x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
            ("mish",): x * math.tanh(math.log1p(math.exp(x))),
            ("softplus", 0.5): 2 * math.log1p(math.exp(x / 2)),
            ("abs",): abs(x),
            ("power", 1.0, 2.0, 1.5): (1 + 2 * x) ** 1.5 if 1 + 2 * x > 1e-6 else 0.0,
        }
        assert {kind for kind, *_ in expected} == set(ActivationKind)
        for (kind, *numbers), right in expected.items():
            found = value(kind, x, *numbers)  # type: ignore[arg-type]
            assert found == pytest.approx(right, rel=1e-12, abs=1e-15), (kind, x)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_no_difference_grows_by_more_than_the_largest_slope(activation: Activation) -> None:
    x = np.linspace(-8.0, 8.0, 100_001)
    with np.errstate(all="ignore"):
        slopes = np.abs(np.diff(activation(x)) / np.diff(x))
    assert slopes.max() <= activation.largest_slope(8.0) * (1 + 1e-9)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_a_slope_among_all_values_is_that_among_the_largest_or_none(activation: Activation) -> None:
    of_all = activation.largest_slope(math.inf)
    assert of_all == math.inf or of_all == activation.largest_slope(1e30)


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0, 3.0])
def test_a_power_grows_without_a_largest_slope(exponent: float) -> None:
    assert Activation("power", 1.0, 0.5, exponent).largest_slope(math.inf) == math.inf


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_a_nan_stays_one_except_as_a_base_to_the_power_of_0(activation: Activation) -> None:
    if activation.kind is ActivationKind.POWER and activation.numbers[2] == 0:
        return
    assert np.isnan(activation(np.array([1.0, np.nan]))).tolist() == [False, True]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_text_and_pickle_give_the_same_value_back(activation: Activation) -> None:
    assert Activation.parse(str(activation)) == activation
    assert pickle.loads(pickle.dumps(activation)) == activation
    assert len({activation, Activation(activation.kind, *activation.numbers)}) == 1


def test_numbers_that_are_left_out_have_defaults() -> None:
    assert Activation("clip").numbers == (0.0, 6.0)
    assert Activation("clip", -1).numbers == (-1.0, 6.0)
    assert Activation("leaky", np.float32(0.5)) == Activation(ActivationKind.LEAKY, 0.5)
    assert str(Activation("clip", 0, 6)) == "clip"
    assert str(Activation("clip", -1)) == "clip:-1.0,6.0"


@pytest.mark.parametrize(
    ("kind", "numbers", "says"),
    [
        ("gelu", (), "gelu-erf, gelu-tanh"),
        ("relu", (1.0,), "0 numbers"),
        ("clip", (1.0, 0.0), "up to a larger one"),
        ("softplus", (0.0,), "above 0"),
        ("leaky", (math.inf,), "finite"),
        ("leaky", (math.nan,), "finite"),
        ("leaky", ("0.1",), "finite"),
        ("leaky", (True,), "finite"),
        ("leaky", (1e39,), "finite"),
    ],
)
def test_what_cannot_be_is_refused(kind: str, numbers: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ProblemError, match=says):
        Activation(kind, *numbers)


@pytest.mark.parametrize("text", ["leaky:", "leaky:x", "clip:0,", ":1", "clip:0;6"])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(ProblemError, match="activation"):
        Activation.parse(text)
