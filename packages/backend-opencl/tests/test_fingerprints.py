"""Fingerprints of memory, taken where it is: by a CPU that passes for a GPU, or by a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices_for_tests import as_gpu

from convfind.checking.draws import first_draw
from convfind.checking.fingerprints import Fingerprints
from convfind.checking.tensor_set import TensorSet
from convfind.device.target import DeviceKind
from convfind.errors import VerificationError
from convfind.finddb import BinaryStore, FindDb
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device
from convfind.runtime.kernel_cache import KernelCache
from convfind.runtime.session import Session
from convfind.testing.mock_functions import mock_fingerprint
from convfind.types import DataType

SIZES = [1, 3, 4, 5, 1024, 1027, 300_007]
OFFSET = 512


def session_on(device: Device) -> Session:
    kernels = KernelCache(device, BinaryStore.open(None), 1)
    registry = Registry.build([], load_entry_points=False)
    return Session(device, registry, FindDb.open(None), kernels)


@pytest.fixture
def far(device: Device) -> Session:
    """A session on a GPU, whose memory the host does not share."""
    features = device.target.features - {"unified-memory"}
    gpu = as_gpu(device, compute_units=8, features=features)
    if gpu.target.has("unified-memory"):
        pytest.skip(f"{gpu.target.name} shares the host's memory")
    return session_on(gpu)


@pytest.fixture
def fingerprints(far: Session) -> Fingerprints:
    found = Fingerprints.on(far)
    assert found is not None
    return found


@pytest.mark.parametrize("size", SIZES)
def test_a_fingerprint_is_the_sum_that_it_is_said_to_be(
    far: Session, fingerprints: Fingerprints, size: int
) -> None:
    bytes_there = np.random.default_rng(size).integers(0, 256, OFFSET + size, np.uint8)
    buffer = far.device.upload(bytes_there)
    expected = np.empty(8, np.uint8)
    seed = np.int64(fingerprints.seed)
    words, rest = divmod(size, 4)
    mock_fingerprint(bytes_there[OFFSET:], expected, np.int64(words), np.int32(rest), seed)
    assert fingerprints.of(buffer, size, OFFSET) == int(expected.view(np.uint64)[0])


@pytest.mark.parametrize("size", SIZES)
def test_one_bit_that_changes_shows_wherever_it_is(
    far: Session, fingerprints: Fingerprints, size: int
) -> None:
    memory = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    buffer = far.device.allocate(size)
    far.device.write(buffer, memory)
    before = fingerprints.of(buffer, size)
    for place in {0, size // 2, size - 1}:
        changed = memory.copy()
        changed[place] ^= 128
        far.device.write(buffer, changed)
        assert fingerprints.of(buffer, size) != before
    far.device.write(buffer, memory)
    assert fingerprints.of(buffer, size) == before


def test_every_find_has_fingerprints_of_its_own(far: Session) -> None:
    buffer = far.device.upload(np.arange(1000, dtype=np.float32))
    found = [Fingerprints.on(far) for _ in range(3)]
    assert len({one.of(buffer, 4000) for one in found if one is not None}) == 3


@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.INT8])
def test_tensors_that_changed_on_the_device_are_named(
    far: Session, fingerprints: Fingerprints, dtype: DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = ConvProblem.forward(x=(2, 3, 7, 5), w=(4, 3, 3, 3), dtype=dtype)
    place = TensorSet(far.device, first_draw(problem), fingerprints)
    reads: list[int] = []
    read = far.device.read

    def watched(buffer: Any, array: Any, offset: int = 0) -> None:
        reads.append(array.nbytes)
        read(buffer, array, offset)

    monkeypatch.setattr(far.device, "read", watched)
    assert place.changed() is None
    assert set(reads) == {8}, "only sums were read back, one where one group has all words"
    w = place.draw.memory["w"].copy()
    w.view(np.uint8)[-1] ^= 1
    far.device.write(place.args.w, w)
    assert place.changed() == "w"
    with pytest.raises(VerificationError, match="changed w, which it only reads"):
        place.check_reads()
    place.restore()
    assert place.changed() is None


def test_the_host_compares_what_it_shares(device: Device) -> None:
    if device.target.kind is DeviceKind.CPU:
        assert Fingerprints.on(session_on(device)) is None
