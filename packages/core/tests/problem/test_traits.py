"""A problem's traits are what it asks for beyond the plainest convolution, and nothing else."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from convfind.problem import ConvProblem
from convfind.problem.traits import FIRST_TRAITS, Trait
from convfind.types import Direction

PLAINEST = ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1))
#: For each trait a problem that has no other.
ALONE: dict[Trait, ConvProblem] = {
    Trait.FILTER: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 3)),
    Trait.STRIDE: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), stride=(1, 2)),
    Trait.PADDING: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), padding=(0, 1)),
    Trait.GROUPS: ConvProblem.forward((2, 4, 9, 9), (6, 2, 1, 1), groups=2),
    Trait.GAPS: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), w_strides=(8, 1, 1, 1)),
    Trait.MIXED_LAYOUTS: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), y_layout="NHWC"),
    Trait.RESULT_TYPE: ConvProblem.forward(
        (2, 4, 9, 9), (6, 4, 1, 1), dtype="int8", y_dtype="float32"
    ),
    Trait.ALPHA: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), alpha=0.5),
    Trait.BETA: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), beta=1.0),
    Trait.DETERMINISTIC: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), deterministic=True),
    Trait.STRICT: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), accuracy="strict"),
    Trait.BIAS: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), bias=True),
    Trait.ADD: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), add=True),
    Trait.ACTIVATION: ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), activation="relu"),
}


@pytest.mark.parametrize("trait", ALONE)
def test_a_property_is_one_trait(trait: Trait) -> None:
    assert ALONE[trait].traits == {trait}


def test_traits_that_come_with_another() -> None:
    dilated = ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 1), dilation=(2, 1))
    assert dilated.traits == {Trait.FILTER, Trait.DILATION}
    for pads in (((1, 0), (0, 0)), ((0, 1), (0, 0))):
        padded = ConvProblem.forward((2, 4, 9, 9), (6, 4, 1, 1), padding=pads)
        assert padded.traits == {Trait.PADDING, Trait.ASYMMETRIC_PADDING}


def test_a_tensor_behind_an_activation_comes_with_both() -> None:
    problem = ConvProblem.forward(
        (2, 4, 9, 9), (6, 4, 1, 1), add=True, activation="relu", add_last=True
    )
    assert problem.traits == {Trait.ADD, Trait.ACTIVATION, Trait.ADD_LAST}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_plainest_convolution_has_none(direction: Direction, layout: str, dtype: str) -> None:
    problem = ConvProblem.create(direction, (2, 4, 9, 9), (6, 4, 1, 1), layout=layout, dtype=dtype)
    assert problem.traits == frozenset()
    assert ConvProblem.forward((2, 4, 9), (6, 4, 1), dtype="int8").traits == frozenset()


def test_permissions_and_steps_between_taps_that_do_not_exist_are_no_traits() -> None:
    assert replace(PLAINEST, allow_tf32=True).traits == frozenset()
    assert replace(PLAINEST, accuracy="relaxed").traits == frozenset()  # type: ignore[arg-type]
    assert replace(PLAINEST, dilation=(2, 3)).traits == frozenset()


def test_a_transposed_problem_is_asked_about_as_the_plain_one() -> None:
    problem = ConvProblem.forward(
        (1, 4, 5, 5), (4, 3, 2, 2), mode="transpose", stride=2, y_layout="NHWC"
    )
    assert problem.plain().traits == {Trait.FILTER, Trait.STRIDE, Trait.MIXED_LAYOUTS}


def test_every_field_of_a_problem_is_a_size_an_axis_of_domains_a_permission_or_a_trait() -> None:
    sizes = {"x_shape", "w_shape", "y_shape"}
    axes = {"direction", "dtype", "x_layout"}
    permissions = {"allow_tf32"}
    only_before_it_is_plain = {"mode", "output_padding"}
    traits = {
        *("stride", "padding", "padding_end", "dilation", "groups", "y_dtype"),
        *("w_layout", "y_layout", "x_strides", "w_strides", "y_strides"),
        *("alpha", "beta", "deterministic", "accuracy"),
        *("bias", "add", "add_last", "activation"),
    }
    known = sizes | axes | permissions | only_before_it_is_plain | traits
    assert {field.name for field in fields(ConvProblem)} == known  # a new one needs a trait


def test_what_undeclared_solvers_take_never_grows() -> None:
    words = (
        "filter stride dilation padding asymmetric-padding groups gaps mixed-layouts result-type"
        " alpha beta deterministic strict"
    )
    assert frozenset(words.split()) == FIRST_TRAITS
