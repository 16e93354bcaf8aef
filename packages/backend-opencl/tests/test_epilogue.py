"""`convfind_epilogue.h`: bias, z and activations as they are written down, in all of its forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from convfind.runtime.backend import InvokeArgs
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, ScalarArg, align, i32
from convfind.types import DataType
from convfind_backend_opencl.device import OpenCLDevice

Array = np.ndarray[Any, Any]

#: Odd, so that vectors end in parts; rows of so many sums.
CHANNELS, ROWS = 21, 16
#: Without optimisation, for which PoCL takes long.
QUICK = ("-cl-opt-disable",)

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _power(x: Array, a: float, b: float, c: float) -> Array:
    base = a + b * x
    return np.where(base <= 1e-6, 0.0, np.maximum(base, 1e-6) ** c)


#: By the name in kernels: the formula in float64, and numbers to try.
ACTIVATIONS: Mapping[str, tuple[Callable[..., Array], tuple[float, ...]]] = {
    "RELU": (lambda x: np.maximum(x, 0.0), ()),
    "CLIP": (lambda x, a, b: np.clip(x, a, b), (-0.5, 6.0)),
    "LEAKY": (lambda x, a: np.where(x < 0, a * x, x), (0.25,)),
    "ELU": (lambda x, a: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0.0))), (1.5,)),
    "SIGMOID": (_sigmoid, ()),
    "TANH": (lambda x, a, b: b * np.tanh(a * x), (0.5, 1.75)),
    "SILU": (lambda x: x * _sigmoid(x), ()),
    "HARD_SWISH": (lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0), ()),
    "HARD_SIGMOID": (lambda x, a, b: np.clip(a * x + b, 0.0, 1.0), (0.2, 0.5)),
    "GELU_ERF": (lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))), ()),
    "GELU_TANH": (
        lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
        (),
    ),
    "MISH": (lambda x: x * np.tanh(np.logaddexp(0.0, x)), ()),
    "SOFTPLUS": (lambda x, a: np.logaddexp(0.0, a * x) / a, (2.0,)),
    "ABS": (np.abs, ()),
    "POWER": (_power, (0.5, 0.25, 1.5)),
}


@dataclass(frozen=True, slots=True)
class Case:
    """An epilogue, and the types it is of."""

    alpha: float = 0.75
    beta: float = 0.5
    has_bias: bool = True
    has_z: bool = True
    activation: str | None = None
    sum: DataType = DataType.FLOAT32
    result: DataType = DataType.FLOAT32
    arithmetic: DataType = DataType.FLOAT32
    z_comes_last: bool = False

    @property
    def numbers(self) -> tuple[float, ...]:
        return ACTIVATIONS[self.activation][1] if self.activation else ()

    @property
    def defines(self) -> dict[str, str | int]:
        return {
            **({"CF_BIAS": self.result.upper()} if self.has_bias else {}),
            **({self.macro_of_z: self.result.upper()} if self.has_z else {}),
            **({"CF_ACTIVATION": self.activation} if self.activation else {}),
            "CF_ARITHMETIC": self.arithmetic.upper(),
        }

    @property
    def macro_of_z(self) -> str:
        return "CF_Z_LAST" if self.z_comes_last else "CF_Z"

    def expected(self, sums: Array, bias: Array, z: Array) -> Array:
        """All of it in float64."""
        value = self.alpha * sums.astype("d")
        if self.has_bias:
            value = value + bias.astype("d")
        if self.beta and not self.z_comes_last:
            value = value + self.beta * z.astype("d")
        if self.activation:
            value = ACTIVATIONS[self.activation][0](value, *self.numbers)
        return value + self.beta * z.astype("d") if self.z_comes_last else value


@cache
def loaded(device: OpenCLDevice, program: Program) -> object:
    """A program, ready on a device; kernels in several forms share one."""
    return device.load(program, device.compile(program))


def run(device: OpenCLDevice, entry: str, case: Case, sums: Array, bias: Array, z: Array) -> Array:
    """Return what a kernel stores; without a z of its own it lies in the result, else NaN."""
    is_vector = entry in ("along_channels", "along_positions", "in_turns")
    name = "epilogue_vectors" if is_vector else "epilogue"
    types = {"SUM": case.sum.upper(), "RESULT": case.result.upper()}
    program = Program(
        KernelSource("opencl_test_kernels", f"{name}.cl"),
        KernelLanguage.OPENCL_C,
        make_defines(
            case.defines,
            {} if is_vector else types,
            {"WHOLE": 1} if case.sum is DataType.INT32 else {},
        ),
        QUICK,
    )
    z_at = align(bias.nbytes)
    extra = np.zeros(z_at + z.nbytes, np.uint8)
    extra[: bias.nbytes] = bias.view(np.uint8).ravel()
    extra[z_at:] = z.view(np.uint8).ravel()
    result = np.full(z.nbytes, 0xFF, np.uint8) if case.has_z else z.view(np.uint8).ravel().copy()
    number = case.arithmetic.value
    size = ROWS if is_vector else sums.size // (4 if entry == "by_fours" else 1)
    launch = Launch(
        KernelSpec(program, entry),
        (
            BufferArg(Memory.X),
            BufferArg(Memory.Y),
            *(ScalarArg(value, number) for value in (case.alpha, case.beta)),
            *((BufferArg(Memory.WORKSPACE),) if case.has_bias else ()),
            *((BufferArg(Memory.WORKSPACE, z_at),) if case.has_z else ()),
            *(ScalarArg(value, number) for value in case.numbers),
            i32(sums.shape[1]),
        ),
        (size,),
        (1,),
    )
    contents = {"x": sums.view(np.uint8).ravel(), "y": result, "workspace": extra}
    buffers = {key: device.allocate(content.size) for key, content in contents.items()}
    for key, content in contents.items():
        device.write(buffers[key], content)
    device.invoker((launch,), {program: loaded(device, program)})(InvokeArgs(**buffers))
    device.read(buffers["y"], result)
    return result.view(case.result.numpy).reshape(z.shape)


def data(case: Case, channels: int = CHANNELS) -> tuple[Array, Array, Array]:
    """Sums, bias and z: small numbers, and some that saturate every activation."""
    rng = np.random.default_rng(5)
    sums = rng.uniform(-4.0, 4.0, (ROWS, channels))
    sums[::3] *= 8.0
    bias, z = rng.uniform(-2.0, 2.0, channels), rng.uniform(-2.0, 2.0, sums.shape)
    if not case.sum.is_float:
        sums, bias, z = (np.round(20.0 * array) for array in (sums, bias, z))
    types = (case.sum, case.result, case.result)
    converted = (a.astype(t.numpy) for a, t in zip((sums, bias, z), types, strict=True))
    return tuple(converted)  # type: ignore[return-value]


def assert_right(device: OpenCLDevice, entry: str, case: Case, channels: int = CHANNELS) -> None:
    sums, bias, z = data(case, channels)
    result = run(device, entry, case, sums, bias, z).astype("d")
    expected = case.expected(sums, bias, z)
    close = {DataType.FLOAT16: 1e-3, DataType.BFLOAT16: 8e-3, DataType.FLOAT64: 1e-12}
    tolerance = close.get(case.result, 4e-6)
    if not case.result.is_float:
        expected = np.trunc(expected)  # as C converts
        tolerance = 1.0 / 64
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance, err_msg=entry)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_its_formula_in_scalars_fours_and_vectors(
    device: OpenCLDevice, activation: str
) -> None:
    case = Case(activation=activation)
    assert_right(device, "one_by_one", case)
    assert_right(device, "by_fours", case, channels=24)
    if device.target.kind.value == "cpu":
        assert_right(device, "along_channels", case)


@pytest.mark.parametrize("activation", ["RELU", "CLIP", "GELU_ERF", "SOFTPLUS", "MISH", "POWER"])
def test_a_nan_stays_one_and_infinity_does_what_it_should(
    device: OpenCLDevice, activation: str
) -> None:
    case = Case(alpha=1.0, beta=0.0, has_bias=False, has_z=False, activation=activation)
    sums = np.full((1, 4), np.nan, np.float32)
    sums[0, 1] = np.inf
    zeros = np.zeros_like(sums)
    result = run(device, "one_by_one", case, sums, zeros[0], zeros)
    assert np.isnan(result[0, [0, 2, 3]]).all()
    assert result[0, 1] == (6.0 if activation == "CLIP" else np.inf)


@pytest.mark.parametrize("activation", ["SIGMOID", "SILU", "GELU_TANH", "MISH"])
def test_exponentials_of_vectors_are_right_from_end_to_end(
    device: OpenCLDevice, activation: str
) -> None:
    if device.target.kind.value != "cpu":
        pytest.skip("vectors are for CPUs")
    case = Case(alpha=1.0, beta=0.0, has_bias=False, has_z=False, activation=activation)
    sums = np.linspace(-95.0, 95.0, ROWS * 256).astype(np.float32).reshape(ROWS, 256)
    sums[0, :8] = (np.nan, np.inf, -1e30, 0.0, 1e-30, -1e-30, 88.4, -88.4)
    zeros = np.zeros_like(sums)
    result = run(device, "along_channels", case, sums, zeros[0], zeros)
    assert np.isnan(result[0, 0])
    assert result[0, 1] == (1.0 if activation == "SIGMOID" else np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = case.expected(sums, zeros[0], zeros)
    within = np.isfinite(sums)
    np.testing.assert_allclose(result[within], expected[within], rtol=2e-6, atol=1e-6)
    tiny = within & (sums < -2.0) & (sums > -80.0)
    if activation in ("SIGMOID", "SILU"):
        np.testing.assert_allclose(result[tiny], expected[tiny], rtol=4e-7)


@pytest.mark.parametrize("has_z", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("activation", [None, "LEAKY"])
def test_the_parts_are_there_or_not_in_every_form(
    device: OpenCLDevice, activation: str | None, has_bias: bool, has_z: bool
) -> None:
    case = Case(has_bias=has_bias, has_z=has_z, activation=activation)
    for entry in ("one_by_one", "not_reading", "in_passes"):
        assert_right(device, entry, case)
    assert_right(device, "by_fours", case, channels=24)
    if device.target.kind.value == "cpu":
        for entry in ("along_channels", "along_positions", "in_turns"):
            assert_right(device, entry, case)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("activation", ["SILU", "RELU"])
def test_a_z_is_added_behind_the_activation_in_every_form(
    device: OpenCLDevice, activation: str, has_bias: bool
) -> None:
    case = Case(has_bias=has_bias, activation=activation, z_comes_last=True)
    for entry in ("one_by_one", "not_reading", "in_passes"):
        assert_right(device, entry, case)
    assert_right(device, "by_fours", case, channels=24)
    if device.target.kind.value == "cpu":
        for entry in ("along_channels", "along_positions", "in_turns"):
            assert_right(device, entry, case)


def test_types_of_results_are_rounded_once_behind_the_activation(device: OpenCLDevice) -> None:
    for result in (DataType.FLOAT16, DataType.BFLOAT16):
        assert_right(device, "one_by_one", Case(activation="SILU", result=result))
        assert_right(device, "not_reading", Case(activation="SILU", result=result))
        last = Case(activation="SILU", result=result, z_comes_last=True)
        assert_right(device, "one_by_one", last)
    if device.target.has("fp64"):
        double = DataType.FLOAT64
        case = Case(activation="GELU_TANH", sum=double, result=double, arithmetic=double)
        assert_right(device, "one_by_one", case)


def test_sums_of_int8_become_floats_or_whole_numbers(device: OpenCLDevice) -> None:
    whole = DataType.INT32
    assert_right(device, "one_by_one", Case(activation="RELU", sum=whole))
    assert_right(device, "one_by_one", Case(2.0, 3.0, sum=whole, result=whole))
    assert_right(device, "one_by_one", Case(2.0, 3.0, sum=whole, result=whole, arithmetic=whole))


def test_a_whole_sum_and_bias_are_exact_where_floats_are_not(device: OpenCLDevice) -> None:
    whole = DataType.INT32
    sums = np.array([[2**24 + 1, -(2**30) - 1, 7, 0]], np.int32)
    bias, z = np.array([2, 3, -5, 1], np.int32), np.full_like(sums, -1)
    for has_bias in (False, True):
        case = Case(1.0, 0.0, has_bias=has_bias, has_z=False, sum=whole, result=whole)
        result = run(device, "one_by_one", case, sums, bias, z)
        np.testing.assert_array_equal(result, sums + (bias if has_bias else 0))


def test_a_beta_of_zero_does_not_read_what_lies_in_the_result(device: OpenCLDevice) -> None:
    case = Case(beta=0.0, has_z=False, activation="TANH")
    sums, bias, z = data(case)
    nowhere = np.full_like(z, np.nan)
    entries = ["one_by_one", "not_reading", "in_passes"]
    if device.target.kind.value == "cpu":
        entries += ["along_channels", "along_positions"]
    for entry in entries:
        result = run(device, entry, case, sums, bias, nowhere)
        np.testing.assert_allclose(result, case.expected(sums, bias, z), rtol=4e-6, atol=4e-6)


def test_plain_alpha_and_beta_need_no_macro(device: OpenCLDevice) -> None:
    case = Case(has_bias=False, has_z=False)
    assert replace(case, arithmetic=DataType.FLOAT32).numbers == ()
    assert_right(device, "one_by_one", case)
