"""Functions of elements are right: on all types, broadcast, strided, in place, with NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from convfind.errors import ProblemError
from convfind.problem.activation import Activation, ActivationKind
from convfind.runtime.backend import Device, InvokeArgs
from convfind_operators.element_type import ElementType
from convfind_operators.elementwise import (
    ActivationProblem,
    BatchNormProblem,
    BinaryProblem,
    CastProblem,
    UnaryProblem,
    WhereProblem,
)
from convfind_operators.functions import BinaryFunction, UnaryFunction
from convfind_operators.operand import Shape
from convfind_operators.rotary import RotaryProblem
from convfind_operators.solver_list import solver_of

Check = Callable[..., None]

FLOATS = [ElementType.FLOAT32, ElementType.FLOAT16, ElementType.BFLOAT16]
OF_FLOATS = [one for one in UnaryFunction if one is not UnaryFunction.BITWISE_NOT]


@pytest.mark.parametrize("kind", ActivationKind)
def test_activations_are_right(check: Check, kind: ActivationKind) -> None:
    check(ActivationProblem(x=(2, 3, 7, 11), activation=Activation(kind)))


@pytest.mark.parametrize("dtype", [*FLOATS, ElementType.FLOAT64])
def test_activations_of_every_type_are_right(check: Check, dtype: ElementType) -> None:
    check(ActivationProblem(x=(3, 37), activation=Activation("leaky", 0.3), dtype=dtype))


def test_activations_of_tensors_with_gaps_leave_the_gaps_alone(check: Check) -> None:
    strides = {"x": (500, 100, 12, 1), "y": (1, 2, 6, 42)}
    check(ActivationProblem(x=(2, 3, 7, 11), activation=Activation("relu"), strides=strides))


def test_large_tensors_of_which_work_items_have_several_elements_are_right(check: Check) -> None:
    image = (3, 37, 9, 104)  # the last round of a group is not full
    check(BinaryProblem(a=image, b=image, function=BinaryFunction.ADD))
    check(BinaryProblem(a=image, b=(37, 1, 1), function=BinaryFunction.MUL))
    check(UnaryProblem(x=image, function=UnaryFunction.EXP, dtype=ElementType.FLOAT16))


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_of_fours_and_their_ends_are_right(check: Check, dtype: ElementType) -> None:
    for image, b in (((5, 8, 12), (8, 1)), ((5, 8, 12), (12,)), ((5, 7, 3), (5, 7, 3))):
        check(BinaryProblem(a=image, b=b, function=BinaryFunction.SUB, dtype=dtype))
    strides = {"x": (40, 20, 1), "y": (44, 12, 1)}
    check(UnaryProblem(x=(3, 2, 11), function=UnaryFunction.NEG, dtype=dtype, strides=strides))


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_of_eights_and_their_ends_are_right(check: Check, dtype: ElementType) -> None:
    image = (2, 16, 8, 17)
    for b in (image, (16, 1, 1), (17,)):
        check(BinaryProblem(a=image, b=b, function=BinaryFunction.SUB, dtype=dtype))
    check(UnaryProblem(x=(3, 5, 67), function=UnaryFunction.NEG, dtype=dtype))
    check(UnaryProblem(x=(3, 24), function=UnaryFunction.SWISH, numbers=(1.5,), dtype=dtype))
    for channels_last in (False, True):
        check(BatchNormProblem(x=image, dtype=dtype, channels_last=channels_last))
    strides = {"x": (400, 200, 1), "y": (440, 144, 1)}
    check(UnaryProblem(x=(3, 2, 131), function=UnaryFunction.NEG, dtype=dtype, strides=strides))


@pytest.mark.parametrize("function", OF_FLOATS)
def test_functions_of_one_element_are_right(check: Check, function: UnaryFunction) -> None:
    check(UnaryProblem(x=(3, 5, 7), function=function))


@pytest.mark.parametrize("dtype", FLOATS)
def test_exponentials_are_right_as_far_as_they_are_finite(check: Check, dtype: ElementType) -> None:
    ends = [-3e38, -1e30, -1e-40, -0.0, 0.0, 1e-40, 88.5, 1e30, 3e38]
    x = np.concatenate([np.linspace(-88, 89, 5001), ends]).astype(np.float32)
    if dtype is ElementType.FLOAT16:
        x = x[np.abs(x) < 100]
    problem = UnaryProblem(x=x.shape, function=UnaryFunction.SWISH, dtype=dtype)
    check(problem, inputs={"x": x.astype(dtype.numpy)})


def test_functions_of_whole_numbers_are_right(check: Check) -> None:
    check(UnaryProblem(x=(3, 35), function=UnaryFunction.BITWISE_NOT, dtype=ElementType.INT32))
    check(UnaryProblem(x=(3, 35), function=UnaryFunction.SIGN, dtype=ElementType.INT64))
    check(UnaryProblem(x=(3, 35), function=UnaryFunction.NOT, dtype=ElementType.BOOL))


@pytest.mark.parametrize("function", BinaryFunction)
def test_functions_of_two_elements_are_right(check: Check, function: BinaryFunction) -> None:
    if function.takes_floats:
        b = (11,) if function is BinaryFunction.POW else (3, 1, 1)
        check(BinaryProblem(a=(2, 3, 7, 11), b=b, function=function))
    if function.is_logic:
        check(BinaryProblem(a=(5, 7), b=(5, 1), function=function, dtype=ElementType.BOOL))
    else:
        rng = np.random.default_rng(1)
        inputs = {
            "a": rng.integers(-20, 20, (2, 3, 7)).astype(np.int32),
            "b": rng.integers(1, 7, (3, 1)).astype(np.int32),
        }
        problem = BinaryProblem(a=(2, 3, 7), b=(3, 1), function=function, dtype=ElementType.INT32)
        check(problem, inputs=inputs)


@pytest.mark.parametrize(
    "dtype", [ElementType.UINT64, ElementType.UINT32, ElementType.UINT16, ElementType.INT16]
)
def test_whole_numbers_of_every_size_are_right_at_their_ends(
    check: Check, dtype: ElementType
) -> None:
    ends = np.iinfo(dtype.value)
    a = np.asarray([ends.max, ends.max - 1, ends.max, 7, 5], dtype.numpy)
    b = np.asarray([ends.max - 1, ends.max, 3, 2, 5], dtype.numpy)
    for function in (BinaryFunction.DIV, BinaryFunction.LESS, BinaryFunction.MAX):
        problem = BinaryProblem(a=(5,), b=(5,), function=function, dtype=dtype)
        check(problem, inputs={"a": a, "b": b})


@pytest.mark.parametrize("function", [BinaryFunction.SHIFT_LEFT, BinaryFunction.SHIFT_RIGHT])
@pytest.mark.parametrize("dtype", [ElementType.INT32, ElementType.INT8, ElementType.UINT64])
def test_shifts_by_more_bits_than_there_are_leave_the_sign(
    check: Check, function: BinaryFunction, dtype: ElementType
) -> None:
    least = -7 if not dtype.is_unsigned else 0
    a = np.asarray([100, 100, 100, least, least], dtype.numpy)
    b = np.asarray([2, 63, 64, 32, 100], dtype.numpy)
    problem = BinaryProblem(a=(5,), b=(5,), function=function, dtype=dtype)
    check(problem, inputs={"a": a, "b": b})


def test_bounds_beyond_a_type_are_none(check: Check) -> None:
    bounds = (-np.inf, 3.0)
    check(
        UnaryProblem(
            x=(3, 35), function=UnaryFunction.BOUNDED, numbers=bounds, dtype=ElementType.INT8
        )
    )


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_squeeze_and_excite_product_is_right_in_both_layouts(
    check: Check, channels_last: bool
) -> None:
    problem = BinaryProblem(
        a=(2, 21, 7, 11),
        b=(2, 21, 1, 1),
        function=BinaryFunction.MUL,
        activation=Activation("silu"),
        channels_last=channels_last,
    )
    check(problem)


@pytest.mark.parametrize("kind", ActivationKind)
@pytest.mark.parametrize("activates", ["a", "b"])
def test_gates_are_right(check: Check, kind: ActivationKind, activates: str) -> None:
    problem = BinaryProblem(
        a=(3, 5, 37),
        b=(3, 5, 37),
        function=BinaryFunction.MUL,
        activation=Activation(kind),
        activates=activates,
    )
    check(problem)


@pytest.mark.parametrize("function", [BinaryFunction.ADD, BinaryFunction.SUB, BinaryFunction.MUL])
@pytest.mark.parametrize("dtype", [*FLOATS, ElementType.FLOAT64])
def test_halves_of_rows_are_gated_where_they_lie(
    check: Check, function: BinaryFunction, dtype: ElementType
) -> None:
    apart = (34 * 272, 272, 1)  # rows of 136, whose other halves lie between them
    problem = BinaryProblem(
        a=(2, 17, 136),
        b=(2, 17, 136),
        function=function,
        activation=Activation("gelu-erf"),
        activates="b",
        dtype=dtype,
        strides={"a": apart, "b": apart},
    )
    check(problem)
    check(replace(problem, b=(17, 1), activates="a", strides={"a": apart}))


def test_a_choice_is_right(check: Check) -> None:
    check(WhereProblem(condition=(7, 1), a=(2, 3, 7, 11), b=()))


@pytest.mark.parametrize("dtype", ElementType)
@pytest.mark.parametrize("to", [ElementType.FLOAT32, ElementType.FLOAT16, ElementType.INT64])
def test_casts_are_right(check: Check, dtype: ElementType, to: ElementType) -> None:
    check(CastProblem(x=(5, 41), dtype=dtype, to=to), not_finite=False)
    check(CastProblem(x=(5, 41), dtype=to, to=dtype), not_finite=False)


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_batch_norms_are_right(
    check: Check, channels_last: bool, dtype: ElementType, statistics: bool
) -> None:
    problem = BatchNormProblem(
        x=(3, 21, 7, 5),
        statistics=statistics,
        activation=Activation("relu"),
        dtype=dtype,
        channels_last=channels_last,
    )
    check(problem)


def test_large_tensors_are_shared_by_all_cores(check: Check) -> None:
    check(BinaryProblem(a=(3, 70001), b=(70001,), function=BinaryFunction.ADD), not_finite=False)
    check(ActivationProblem(x=(40001,), activation=Activation("abs")), not_finite=False)


def test_a_result_may_be_the_memory_of_an_operand(convfind_device: Device) -> None:
    problem = BinaryProblem(a=(5, 37), b=(5, 37), function=BinaryFunction.SUB)
    device = convfind_device
    recipe = solver_of(problem, device.target).solution(problem, device.target)
    loaded = {program: device.load(program, device.compile(program)) for program in recipe.programs}
    drawn = problem.draw(np.random.default_rng(2))
    a, b = device.allocate(4 * 185), device.allocate(4 * 185)
    device.write(a, drawn["a"])
    device.write(b, drawn["b"])
    device.invoker(recipe.steps, loaded)(InvokeArgs(a=a, b=b, y=b))
    result = np.empty((5, 37), np.float32)
    device.read(b, result)
    np.testing.assert_array_equal(result, drawn["a"] - drawn["b"])


def test_problems_that_cannot_be_are_refused_in_one_line() -> None:
    with pytest.raises(ProblemError, match="allowed: sizes that are equal or 1"):
        BinaryProblem(a=(2, 3), b=(4,), function=BinaryFunction.ADD)
    with pytest.raises(ProblemError, match="function: 'sine' is not possible"):
        UnaryProblem(x=(3,), function="sine")  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="whole numbers for shift-left"):
        BinaryProblem(a=(2,), b=(2,), function=BinaryFunction.SHIFT_LEFT)
    for function, activates in ((BinaryFunction.DIV, "a"), (BinaryFunction.MUL, "x")):
        with pytest.raises(ProblemError, match="y; of a sum, a difference or a product"):
            BinaryProblem(
                a=(2,),
                b=(2,),
                function=function,
                activation=Activation("relu"),
                activates=activates,
            )
    with pytest.raises(ProblemError, match="one number for each axis of x, y"):
        CastProblem(x=(3, 4), to=ElementType.BOOL, strides={"x": (1,)})


def test_a_key_has_everything_that_is_not_as_usual() -> None:
    problem = BinaryProblem(
        a=(2, 3),
        b=(3,),
        function=BinaryFunction.ADD,
        activation=Activation("clip", 0, 6),
        strides={"y": (4, 1)},
    )
    assert problem.key == "binary_a:2x3_activation:clip_b:3_function:add_strides:y,4x1"
    assert hash(problem) == hash(BinaryProblem(**_fields(problem)))
    gate = BinaryProblem(
        a=(3,), b=(3,), function=BinaryFunction.MUL, activation=Activation("silu"), activates="b"
    )
    assert gate.key == "binary_a:3_activates:b_activation:silu_b:3_function:mul"
    plain = BinaryProblem(a=(3,), b=(3,), function=BinaryFunction.MUL)
    assert replace(plain, activates="b") == plain  # of nothing


def _fields(problem: BinaryProblem) -> dict[str, Any]:
    return {field.name: getattr(problem, field.name) for field in fields(problem)}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("x", "cos", "sin"),
    [
        ((2, 3, 5, 16), (5, 16), (5, 16)),
        ((2, 4, 7, 24), (2, 1, 7, 24), (1, 24)),
        ((3, 10), (3, 10), (10,)),
        ((5, 2), (1,), (5, 1)),
    ],
    ids=str,
)
def test_rows_are_turned_right(
    check: Check, x: Shape, cos: Shape, sin: Shape, dtype: ElementType
) -> None:
    check(RotaryProblem(x=x, cos=cos, sin=sin, dtype=dtype))
    turned = tuple(range(len(x)))[::-1]
    strides = np.empty(x[::-1], np.int8).transpose(turned).strides
    check(RotaryProblem(x=x, cos=cos, sin=sin, dtype=dtype, strides={"x": strides}))


def test_a_row_has_halves_and_factors() -> None:
    with pytest.raises(ProblemError, match="even number"):
        RotaryProblem(x=(2, 5), cos=(5,), sin=(5,))
    with pytest.raises(ProblemError, match="repeated to"):
        RotaryProblem(x=(2, 6), cos=(3, 2, 6), sin=(6,))
    with pytest.raises(ProblemError, match="floating"):
        RotaryProblem(x=(2, 6), cos=(6,), sin=(6,), dtype=ElementType.INT32)
