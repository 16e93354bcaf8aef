"""The table of fields has every field of a convolution, and what goes without saying is true."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given

from convfind.errors import ProblemError
from convfind.heuristics.domain import undescribed
from convfind.heuristics.features import DESCRIBED
from convfind.problem import ConvProblem
from convfind.problem.fields import FIELDS, TAIL, Field, unusual
from convfind.problem.options import ConvOptions
from convfind.problem.text import format_driver_line, format_miopen_key

PLAIN = ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3))
#: For each field of a network config's tail a problem in which it is not usual.
UNUSUAL = {
    "padding_end": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), padding=((0, 1), (0, 0))),
    "mode": ConvProblem.forward((2, 4, 9, 9), (4, 6, 3, 3), mode="transpose"),
    "output_padding": ConvProblem.forward(
        (2, 4, 9, 9), (4, 6, 3, 3), mode="transpose", stride=2, output_padding=1
    ),
    "w_layout": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), w_layout="NHWC"),
    "y_layout": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), y_layout="NHWC"),
    "y_dtype": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), dtype="int8", y_dtype="float32"),
    "x_strides": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), x_strides=(400, 100, 10, 1)),
    "w_strides": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), w_strides=(80, 20, 6, 2)),
    "y_strides": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), y_strides=(600, 100, 10, 1)),
    "alpha": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), alpha=0.5),
    "beta": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), beta=2.0),
    "deterministic": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), deterministic=True),
    "allow_tf32": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), allow_tf32=True),
    "accuracy": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), accuracy="relaxed"),
    "bias": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), bias=True),
    "add": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), add=True),
    "activation": ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), activation="relu"),
    "add_last": ConvProblem.forward(
        (2, 4, 9, 9), (6, 4, 3, 3), add=True, activation="relu", add_last=True
    ),
}


def test_every_field_of_a_convolution_stands_in_the_table_once() -> None:
    names = {field.name for field in fields(ConvProblem)} - {"x_shape", "w_shape", "y_shape"}
    assert sorted(field.name for field in FIELDS) == sorted(names)
    # A keyword stands for two fields where it says something of both ends or all tensors.
    keywords = (ConvOptions.__annotations__.keys() - {"layout"}) | {"direction", "padding_end"}
    assert keywords == names


def test_nothing_of_a_plain_convolution_is_unusual() -> None:
    assert unusual(PLAIN) == []
    assert UNUSUAL.keys() == {field.name for field in TAIL.values()}


@pytest.mark.parametrize("field", TAIL.values(), ids=lambda field: field.name)
def test_what_is_unusual_is_in_the_key_and_read_back(field: Field) -> None:
    problem = UNUSUAL[field.name]
    assert (field, getattr(problem, field.name)) in unusual(problem)
    assert f"_{field.key}:" in problem.key
    assert ConvProblem.from_key(problem.text) == problem


@pytest.mark.parametrize("field", TAIL.values(), ids=lambda field: field.name)
def test_miopens_texts_refuse_what_they_have_no_words_for(field: Field) -> None:
    if field.is_miopens:
        return
    problem = UNUSUAL[field.name]
    # A tensor that is added last is one that is added.
    first = "add" if field.name == "add_last" else field.name
    for spell in (format_driver_line, format_miopen_key):
        with pytest.raises(ProblemError, match=f"^{first}: "):
            spell(problem)


@pytest.mark.parametrize("field", TAIL.values(), ids=lambda field: field.name)
def test_models_refuse_what_no_feature_describes(field: Field) -> None:
    reason = undescribed(UNUSUAL[field.name])
    assert (reason is None) == (field.name in DESCRIBED)


@given(...)
def test_what_is_checked_once_stays_as_it_is(problem: ConvProblem) -> None:
    for field in FIELDS:
        value = getattr(problem, field.name)
        assert field.checked(problem, value) == value


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8"])
def test_a_type_that_is_not_rounded_to_tf32_has_the_same_problem_with_and_without_it(
    dtype: str,
) -> None:
    plain = ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), dtype=dtype)
    allowed = ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3), dtype=dtype, allow_tf32=True)
    assert allowed == plain
    assert allowed.key == plain.key
    with pytest.raises(ProblemError, match="the one spelling"):
        ConvProblem.from_key(f"{plain.key}_tf32:1")
