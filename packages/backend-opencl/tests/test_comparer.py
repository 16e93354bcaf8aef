"""Results compared where they are: by a CPU that passes for a GPU, or by a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from devices_for_tests import as_gpu

from convfind.checking.accuracy import INFINITE_ERROR, ErrorReport, measure_error
from convfind.checking.comparer import Comparer, knows
from convfind.checking.fingerprints import Fingerprints
from convfind.checking.guards import POISON, Guarded
from convfind.checking.held import Held
from convfind.checking.reference import Right
from convfind.device.target import DeviceKind
from convfind.finddb import BinaryStore, FindDb
from convfind.plugins.registry import Registry
from convfind.problem import Activation, ActivationKind
from convfind.problem.tensor_spec import TensorSpec
from convfind.runtime.backend import Device
from convfind.runtime.kernel_cache import KernelCache
from convfind.runtime.session import Session
from convfind.types import DataType

Array = np.ndarray[Any, Any]

TYPES = [DataType.FLOAT64, DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT32]
SIZES = [1, 255, 257, 100_003]


def session_on(device: Device) -> Session:
    kernels = KernelCache(device, BinaryStore.open(None), 1)
    return Session(device, Registry.build([], load_entry_points=False), FindDb.open(None), kernels)


@pytest.fixture
def far(device: Device) -> Session:
    """A session on a GPU with double precision, whose memory the host does not share."""
    gpu = as_gpu(device, compute_units=8, features=device.target.features - {"unified-memory"})
    if gpu.target.has("unified-memory") or not gpu.target.has("fp64"):
        pytest.skip(f"{gpu.target.name} shares the host's memory, or lacks double precision")
    return session_on(gpu)


def comparer_on(
    session: Session, dtype: DataType, shape: tuple[int, ...] = (1,), steps: tuple[int, ...] = (1,)
) -> Comparer:
    operand = TensorSpec("y", shape, dtype, steps)
    found = Comparer.on(session, operand, Fingerprints.on(session))
    assert found is not None
    return found


def there(session: Session, array: Array) -> Guarded:
    guarded = Guarded.allocated(session.device.allocate, array.nbytes, 512)
    guard = np.full(guarded.guard, POISON, np.uint8)
    image = np.concatenate([guard, array.reshape(-1).view(np.uint8), guard])
    session.device.write(guarded.buffer, image)
    return guarded


def compared(session: Session, result: Array, right: Right) -> ErrorReport:
    comparer = comparer_on(session, DataType(result.dtype.name))
    comparer.expect(right)
    report = comparer.compare(there(session, result), right)
    assert report is not None
    return report


def drawn(dtype: DataType, size: int) -> Array:
    values = 200 * np.random.default_rng(size).random(size) - 100
    return values.astype(dtype.numpy)


def same(one: ErrorReport, other: ErrorReport) -> bool:
    return one.max_error == pytest.approx(other.max_error, rel=1e-12) and one.rms_error == (
        pytest.approx(other.rms_error, rel=1e-9)
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_rounded", [False, True])
def test_the_device_measures_what_the_host_measures(
    far: Session, dtype: DataType, size: int, is_rounded: bool
) -> None:
    result = drawn(dtype, size)
    right = result.astype(np.float64) + np.random.default_rng(1).integers(-3, 4, size)
    right = right.astype(dtype.numpy) if is_rounded else right
    expected = measure_error(result, right)
    assert same(compared(far, result, Right(right)), expected)
    yardstick = np.abs(right.astype(np.float64)) + 7
    expected = Right(right, yardstick).error_of(result)
    assert same(compared(far, result, Right(right, yardstick)), expected)


@pytest.mark.parametrize("numbers", [(), (1.0, 0.5, 2.0), (0.0, 1.0, 3.0)])
def test_powers_are_left_to_the_host(numbers: tuple[float, ...]) -> None:
    assert not knows(Activation("power", *numbers)), "its slope depends on the largest value"


@pytest.mark.parametrize("kind", [kind for kind in ActivationKind if kind != "power"])
@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.FLOAT16])
def test_an_activation_is_applied_to_what_the_device_holds(
    far: Session, dtype: DataType, kind: ActivationKind
) -> None:
    activation = Activation(kind)
    sums = (drawn(dtype, 70_001).astype(np.float64) / 20).astype(dtype.numpy)
    right = activation(sums.astype(np.float64))
    result = (right + np.random.default_rng(1).integers(-3, 4, sums.size) / 8).astype(dtype.numpy)
    comparer = comparer_on(far, dtype)
    fingerprints = Fingerprints.on(far)
    assert fingerprints is not None
    operand = TensorSpec("y", sums.shape, dtype, (1,))
    held = Held(operand, far.device, there(far, sums), fingerprints).before(activation)
    comparer.expect(held)
    report = comparer.compare(there(far, result), held)
    assert report is not None
    magnitude = np.abs(sums.astype(np.float64))
    yardstick = activation.largest_slope(math.inf) * magnitude + abs(activation(np.float64(0)))
    expected = Right(right, yardstick).error_of(result)
    assert report.max_error == pytest.approx(expected.max_error, rel=1e-6)
    assert report.rms_error == pytest.approx(expected.rms_error, rel=1e-6)


@pytest.mark.parametrize("steps", [(30, 5, 1), (5, 10, 1), (1, 10, 2), (30, 1, 6)])
def test_strides_may_permute_a_result(far: Session, steps: tuple[int, ...]) -> None:
    operand = TensorSpec("y", (2, 6, 5), DataType.FLOAT32, steps)
    memory = drawn(DataType.FLOAT32, 60)
    result = operand.view(memory)
    right = Right(result + np.arange(60).reshape(result.shape), abs(result.astype(np.float64)) + 7)
    comparer = comparer_on(far, DataType.FLOAT32, operand.shape, steps)
    comparer.expect(right)
    report = comparer.compare(there(far, memory), right)
    assert report is not None
    assert same(report, right.error_of(result))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 70_000, -1])
def test_what_is_not_finite_is_infinitely_wrong(far: Session, place: int, value: float) -> None:
    result = drawn(DataType.FLOAT32, 100_003)
    right = Right(result.copy())
    result[place] = value
    assert compared(far, result, right) == INFINITE_ERROR


def test_one_step_between_the_smallest_numbers_is_no_error(far: Session) -> None:
    step = np.finfo(np.float16).smallest_subnormal
    zeros = Right(np.zeros(300))
    assert compared(far, np.full(300, step), zeros).max_error == 0
    assert compared(far, np.full(300, 2 * step), zeros).max_error == math.inf


def test_what_is_right_is_uploaded_again_where_somebody_wrote_into_it(far: Session) -> None:
    result = drawn(DataType.FLOAT32, 5000)
    right, comparer = Right(result.copy()), comparer_on(far, DataType.FLOAT32)
    comparer.expect(right)
    for copy in comparer._copies[right]:
        far.device.write(copy.place.buffer, np.ones(5000, np.float32))
    report = comparer.compare(there(far, result), right)
    assert report is not None
    assert report.max_error == 0


def test_what_is_right_lies_there_once(far: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    comparer, written = comparer_on(far, DataType.FLOAT32), []
    write = far.device.write

    def watched(buffer: Any, array: Array) -> None:
        written.append(array.nbytes)
        write(buffer, array)

    monkeypatch.setattr(far.device, "write", watched)
    comparer.expect(Right(drawn(DataType.FLOAT32, 5000)))
    assert written == [20_000]


def test_a_device_of_little_memory_leaves_it_to_the_host(device: Device) -> None:
    features = device.target.features - {"unified-memory"}
    small = as_gpu(device, features=features, global_memory=16 * 4 * 5000)
    if small.target.global_memory != 16 * 4 * 5000 or not small.target.has("fp64"):
        pytest.skip(f"{small.target.name} has memory of its own, or lacks double precision")
    session = session_on(small)
    for size, is_compared in ((5000, True), (5001, False)):
        result = drawn(DataType.FLOAT32, size)
        right, comparer = Right(result.copy()), comparer_on(session, DataType.FLOAT32)
        comparer.expect(right)
        assert (comparer.compare(there(session, result), right) is not None) == is_compared


def test_nothing_is_compared_with_what_nobody_expected(far: Session) -> None:
    result = drawn(DataType.FLOAT32, 10)
    assert comparer_on(far, DataType.FLOAT32).compare(there(far, result), Right(result)) is None


def test_the_host_compares_what_it_shares(device: Device) -> None:
    if device.target.kind is DeviceKind.CPU:
        session = session_on(device)
        assert Fingerprints.on(session) is None
        operand = TensorSpec.packed("y", (1,), DataType.FLOAT32)
        assert Comparer.on(session, operand, None) is None
