"""Steps at addresses do what they do on buffers, on the ROCm that there is."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.errors import BackendUnavailableError, LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.recipe import Fill
from convfind.testing.backend_bench import COUNT, program
from convfind.testing.backend_launch_checks import affine
from convfind_backend_hip.backend import HipBackend
from convfind_backend_hip.device import HipDevice
from convfind_backend_hip.memory import HipBuffer

SIZE = 4 * COUNT
NUMBERS = np.arange(COUNT, dtype=np.float32)


@pytest.fixture(scope="module")
def device() -> HipDevice:
    """Open the first device; tests are skipped where there is none."""
    try:
        opened = HipBackend().open()
    except BackendUnavailableError as exc:
        pytest.skip(str(exc))
    assert isinstance(opened, HipDevice)
    return opened


def contents(device: HipDevice, buffer: HipBuffer) -> list[float]:
    found = np.empty(COUNT, np.float32)
    device.read(buffer, found)
    return found.tolist()


def test_addresses_and_buffers_take_turns(device: HipDevice) -> None:
    loaded = {program(): device.load(program(), device.compile(program()))}
    invoker = device.invoker([Fill("y", 0, SIZE), affine()], loaded)
    x, other, y, z = (device.upload(NUMBERS + at) for at in range(4))
    run = device.addressed(invoker, {}, {"x": SIZE, "y": SIZE})
    fixed = device.addressed(invoker, {"x": x}, {"y": SIZE})
    assert run is not None
    assert fixed is not None
    for _ in range(2):
        run([other.address, y.address])
        assert contents(device, y) == (2 * (NUMBERS + 1) + 1).tolist()
        invoker(InvokeArgs(x=x, y=z))
        assert contents(device, z) == (2 * NUMBERS + 1).tolist()
        fixed([y.address])
        assert contents(device, y) == (2 * NUMBERS + 1).tolist()
        run([other.address, z.address])
        assert contents(device, z) == (2 * (NUMBERS + 1) + 1).tolist()


def test_memory_that_is_missing_is_named(device: HipDevice) -> None:
    with pytest.raises(LaunchError, match="the steps use y, which is missing"):
        device.addressed(device.invoker([Fill("y", 0, 64)], {}), {}, {"x": 64})
