"""Problems with a bias, an added tensor and an activation: values, texts, checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from convfind.errors import ProblemError
from convfind.problem import Activation, ConvProblem
from convfind.problem.text import format_driver_line, format_miopen_key
from convfind.problem.traits import EPILOGUE_TRAITS, FIRST_TRAITS, Trait
from convfind.types import DataType, Layout

HEAD = "fwd-2x4x9x8-6x4x3x3-s1x1-p1x1-d1x1-g1-NHWC-float16"


def layer(**more: Any) -> ConvProblem:
    options = {"padding": 1, "dtype": "float16", "layout": "NHWC", **more}
    return ConvProblem.forward((2, 4, 9, 8), (6, 4, 3, 3), **options)


@pytest.mark.parametrize(
    ("options", "tail"),
    [
        ({"bias": True}, "_bias:1"),
        ({"add": True}, "_add:1"),
        ({"add": True, "beta": 0.5}, "_beta:0.5_add:1"),
        ({"add": True, "beta": 0}, "_beta:0.0_add:1"),
        ({"activation": "relu"}, "_act:relu"),
        ({"add": True, "activation": "silu", "add_last": True}, "_add:1_last:1_act:silu"),
        ({"activation": Activation("clip", 0, 6)}, "_act:clip"),
        (
            {"alpha": 2, "bias": True, "add": True, "activation": "hard-swish"},
            "_alpha:2.0_bias:1_add:1_act:hard-swish",
        ),
        ({"beta": 1, "bias": True}, "_beta:1.0_bias:1"),
        ({"accuracy": "relaxed", "bias": True}, "_accuracy:relaxed_bias:1"),
    ],
)
def test_the_key_names_what_there_is(options: dict[str, Any], tail: str) -> None:
    problem = layer(**options)
    assert problem.key == problem.text == str(problem) == HEAD + tail
    assert ConvProblem.from_key(problem.key) == problem


def test_numbers_of_an_activation_are_in_the_text_and_not_in_the_key() -> None:
    problem = layer(bias=True, activation=Activation("leaky", 0.1))
    assert problem.key == f"{HEAD}_bias:1_act:leaky"
    assert problem.text == f"{HEAD}_bias:1_act:leaky:0.1"
    assert ConvProblem.from_key(problem.text) == problem
    assert ConvProblem.from_key(problem.key) == layer(bias=True, activation="leaky") != problem


@pytest.mark.parametrize(
    "tail",
    [
        "_add:1_last:1",
        "_last:1_act:relu",
        "_act:clip:0.0,6.0",
        "_act:leaky:.1",
        "_act:gelu",
        "_bias:0",
        "_add:1_bias:1",
        "_act:",
    ],
)
def test_there_is_one_spelling(tail: str) -> None:
    with pytest.raises(ProblemError):
        ConvProblem.from_key(HEAD + tail)


def test_operands_have_the_form_and_type_of_the_result() -> None:
    problem = layer(dtype="int8", y_dtype="float32", y_layout="NCHW", bias=True, add=True)
    assert problem.reads == ("x", "w", "bias", "z")
    assert problem.shape("bias") == (6,)
    assert problem.shape("z") == problem.y_shape
    assert problem.tensor_layout("z") is Layout.NCHW
    assert problem.tensor_dtype("bias") is problem.tensor_dtype("z") is DataType.FLOAT32
    gaps = layer(add=True, y_strides=(2000, 1, 96, 8))
    assert gaps.strides("z") == (2000, 1, 96, 8)
    assert gaps.nbytes("z") == gaps.nbytes("y")
    assert gaps.traffic == 2 * gaps.nbytes("y") + gaps.nbytes("x") + gaps.nbytes("w")


def test_a_transposed_convolution_keeps_its_epilogue_in_the_plain_form() -> None:
    problem = ConvProblem.forward(
        *((1, 4, 5, 5), (4, 3, 2, 2)),
        mode="transpose",
        stride=2,
        bias=True,
        add=True,
        activation="silu",
    )
    plain = problem.plain()
    assert plain.direction == "backward-data"
    assert problem.shape("bias") == plain.shape("bias") == (3,)
    assert plain.shape("z") == problem.y_shape
    assert [problem.plain_name(name) for name in problem.reads] == ["y", "w", "bias", "z"]
    assert (plain.bias, plain.add, plain.activation) == (True, True, problem.activation)
    assert ConvProblem.from_key(plain.key) == plain


def test_what_is_added_is_a_tensor_or_what_lies_in_the_result() -> None:
    assert layer(add=True).beta == 1.0
    assert layer(add=True, beta=2).beta == 2.0
    assert (layer(beta=2).reads_result, layer(beta=2).adds_z) == (True, False)
    assert (layer(add=True).reads_result, layer(add=True).adds_z) == (False, True)
    with_zero = layer(add=True, beta=0)
    assert (with_zero.reads_result, with_zero.adds_z) == (False, False)
    assert "z" in with_zero.reads


def test_what_is_added_may_come_behind_the_activation() -> None:
    problem = layer(add=True, activation="silu", add_last=True)
    assert problem != layer(add=True, activation="silu")
    assert problem.without_epilogue() == layer()
    assert layer(activation="silu").with_epilogue(add=True, add_last=True) == problem
    assert ConvProblem.from_key(problem.text) == problem
    more = problem.traits - layer(add=True, activation="silu").traits
    assert more == {Trait.ADD_LAST} <= EPILOGUE_TRAITS
    without_z = layer(add=True, beta=0, activation="silu", add_last=True)
    assert Trait.ADD_LAST not in without_z.traits


def test_without_an_activation_there_is_nothing_to_come_behind() -> None:
    assert layer(add=True, add_last=True) == layer(add=True)
    for nothing in ({}, {"activation": "silu"}, {"beta": 1, "activation": "silu"}):
        with pytest.raises(ProblemError, match="add_last"):
            layer(add_last=True, **nothing)


def test_traits_say_what_a_solver_needs() -> None:
    plain = layer().traits
    assert layer(bias=True).traits - plain == {Trait.BIAS}
    assert layer(add=True).traits - plain == {Trait.ADD}
    assert layer(add=True, beta=0).traits == plain
    assert layer(beta=1).traits - plain == {Trait.BETA}
    assert layer(activation="relu").traits - plain == {Trait.ACTIVATION}
    assert not FIRST_TRAITS & {Trait.BIAS, Trait.ADD, Trait.ACTIVATION}


def test_without_its_epilogue_a_problem_is_the_plain_convolution() -> None:
    fused = layer(bias=True, add=True, activation="relu", alpha=2)
    assert fused.without_epilogue() == layer(alpha=2)
    assert layer(bias=True, beta=3).without_epilogue() == layer(beta=3)
    assert layer().without_epilogue() == layer()


@pytest.mark.parametrize(
    "option", [{"bias": True}, {"add": True}, {"activation": "relu"}], ids=lambda o: next(iter(o))
)
def test_the_gradient_of_weights_has_no_epilogue(option: dict[str, Any]) -> None:
    with pytest.raises(ProblemError, match="gradient of the weights"):
        ConvProblem.backward_weights((2, 4, 9, 8), (6, 4, 3, 3), **option)
    with pytest.raises(ProblemError, match="gradient of the weights"):
        layer(**option).with_direction("backward-weights")


def test_whole_numbers_have_no_activation() -> None:
    with pytest.raises(ProblemError, match="a floating type"):
        layer(dtype="int8", activation="relu")
    assert layer(dtype="int8", y_dtype="float32", activation="relu").y_dtype is DataType.FLOAT32
    assert layer(dtype="int8", bias=True, add=True).tensor_dtype("bias") is DataType.INT32


@pytest.mark.parametrize(
    ("field", "value"),
    [("bias", 1), ("add", "yes"), ("add_last", 2), ("activation", 3), ("activation", "rely")],
)
def test_values_of_other_types_are_refused(field: str, value: object) -> None:
    with pytest.raises(ProblemError, match=field):
        layer(**{field: value})


@pytest.mark.parametrize("option", [{"bias": True}, {"add": True}, {"activation": "relu"}])
def test_texts_of_miopen_that_cannot_say_it_refuse(option: dict[str, Any]) -> None:
    problem = replace(layer(**option), deterministic=False)
    for write in (format_driver_line, format_miopen_key):
        with pytest.raises(ProblemError):
            write(problem)
