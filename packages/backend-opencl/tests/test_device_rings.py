"""Tensors that a device makes of random numbers: the same as the host has."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from devices_for_tests import as_gpu

from convfind.checking import device_rings
from convfind.checking.conv_draw import ConvDraw
from convfind.checking.device_rings import DeviceRings
from convfind.checking.fingerprints import Fingerprints
from convfind.checking.random_numbers import COUNT, Distribution, Part, RandomNumbers, ring_of
from convfind.checking.tensor_set import TensorSet, has_contents
from convfind.finddb import BinaryStore, FindDb
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device
from convfind.runtime.kernel_cache import KernelCache
from convfind.runtime.session import Session
from convfind.types import DataType


@pytest.fixture
def far(device: Device) -> Session:
    """A device whose memory is far from the host's, as that of a GPU is."""
    features = device.target.features - {"unified-memory"}
    gpu = as_gpu(device, features=features)
    kernels = KernelCache(gpu, BinaryStore.open(None), 1)
    return Session(gpu, Registry.build([], load_entry_points=False), FindDb.open(None), kernels)


def rings_on(session: Session) -> DeviceRings:
    rings = DeviceRings.on(session, Fingerprints.on(session))
    assert rings is not None
    return rings


@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.BFLOAT16, DataType.INT8])
@pytest.mark.parametrize("count", [1 << 18, COUNT + 12_345])
def test_a_part_is_what_the_host_has(far: Session, dtype: DataType, count: int) -> None:
    part = Part(ring_of(dtype, "clipped", 0), COUNT - 1000, count)
    values = part.values()
    buffer = far.device.allocate(values.nbytes)
    assert rings_on(far).fill(buffer, part)
    assert has_contents(far.device, buffer, values)


def test_a_ring_stays_and_is_mended_where_somebody_wrote_into_it(far: Session) -> None:
    part = Part(ring_of(DataType.FLOAT32, "clipped", 0), 7, 1 << 18)
    buffer = far.device.allocate(4 * part.count)
    assert rings_on(far).fill(buffer, part)
    (ring,) = far.kept.values()
    far.device.fill(ring.buffer, 1)
    assert rings_on(far).fill(buffer, part), "a later find"
    assert has_contents(far.device, buffer, part.values())


def test_a_ring_stays_where_the_host_has_forgotten_it(far: Session) -> None:
    buffer = far.device.allocate(1 << 18)
    distributions: tuple[Distribution, ...] = ("uniform", "clipped")
    for distribution in distributions:
        for _ in range(2):
            part = Part(RandomNumbers(DataType.INT8, distribution, 0), 7, 1 << 18)
            assert rings_on(far).fill(buffer, part)
            assert has_contents(far.device, buffer, part.values())
    assert len(far.kept) == 2


def test_small_tensors_and_those_of_small_devices_are_uploaded(far: Session) -> None:
    numbers = ring_of(DataType.FLOAT32, "clipped", 0)
    buffer = far.device.allocate(1 << 20)
    assert not rings_on(far).fill(buffer, Part(numbers, 0, 1000))
    small = copy.copy(far.device)
    small.target = replace(far.target, global_memory=1 << 30)
    session = replace(far, device=small, kept={})
    assert not rings_on(session).fill(buffer, Part(numbers, 0, 1 << 18))
    assert not session.kept


NCHW = ConvProblem.forward((3, 8, 9, 11), (4, 8, 3, 3))


@pytest.mark.parametrize(
    "problem",
    [
        NCHW,
        ConvProblem.forward((3, 8, 9, 11), (4, 8, 3, 3), layout="NHWC"),
        replace(NCHW, x_strides=(792, 1, 88, 8)),
        replace(NCHW, x_strides=(1000, 110, 11, 1)),
        ConvProblem.forward((3, 8, 9, 11), (4, 8, 3, 3), bias=True, add=True, dtype="float16"),
    ],
    ids=["nchw", "nhwc", "permuted", "gaps", "fused"],
)
def test_tensors_are_those_of_the_draw(
    far: Session, problem: ConvProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_rings, "_LEAST", 1)
    draw = ConvDraw(problem, 5, "clipped")
    fingerprints = Fingerprints.on(far)
    place = TensorSet(far.device, draw, fingerprints, DeviceRings.on(far, fingerprints))
    for name, memory in draw.memory.items():
        assert has_contents(far.device, getattr(place.args, name), memory)
    assert "w" in draw.parts
