"""Problems of every kind survive a saved plan: as values of JSON, and back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from convfind.errors import ProblemError
from convfind.plugins.registry import Registry
from convfind.problem import Activation, ConvProblem
from convfind_networks.plan.problem_document import document_of, problem_of

X = (2, 6, 5, 4)
LEAKY = Activation("leaky", 0.25)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.build()


def test_a_convolution_keeps_its_activation_and_its_numbers(registry: Registry) -> None:
    problem = ConvProblem.forward(X, (4, 6, 3, 3), bias=True, add=True, activation=LEAKY)
    document = json.loads(json.dumps(document_of(problem)))
    assert problem_of(document, registry) == problem


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("activation", {"x": X, "activation": LEAKY, "channels_last": True}),
        ("unary", {"x": X, "function": "bounded", "numbers": (0.1, math.inf)}),
        ("binary", {"a": X, "b": (6, 1, 1), "function": "mul", "dtype": "float16"}),
        ("pooling", {"x": X, "function": "max", "size": (3, 2), "stride": 2, "indices": True}),
        ("concat", {"shapes": (X, (2, 3, 5, 4)), "axis": 1}),
        ("copy", {"x": X, "y_channels_last": True}),
        ("pad", {"x": X, "begin": (0, 0, 1, 1), "end": (0, 0, 0, 2), "value": -math.inf}),
        (
            "attention",
            {
                "q": X,
                "k": X,
                "v": X,
                "mask": (1, 1, 5, 5),
                "mask_dtype": "bool",
                "starts": {"k": 7},
            },
        ),
        ("layer-norm", {"x": X, "axis": 2, "scale": (5, 4), "epsilon": 1e-6}),
    ],
)
def test_operators_keep_their_fields(registry: Registry, kind: str, fields: dict[str, Any]) -> None:
    problem = registry.problem_type(kind)(**fields)
    document = json.loads(json.dumps(document_of(problem), allow_nan=False))
    again = problem_of(document, registry)
    assert again == problem
    assert again.operands == problem.operands


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "conv"},
        {"kind": "nobody", "fields": {}},
        {"kind": "copy", "fields": {}},
        {"kind": "copy", "fields": {"x": 5}},
        {"kind": "copy", "fields": {"x": [2, 3], "dtype": "nothing"}},
        {"kind": "copy", "fields": {"x": [2, 3], "other": 1}},
        {"kind": "copy", "fields": [1]},
        {"kind": ["copy"], "fields": {}},
    ],
)
def test_what_says_no_problem_is_refused(registry: Registry, document: Any) -> None:
    with pytest.raises(ProblemError):
        problem_of(document, registry)
