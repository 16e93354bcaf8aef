"""GPUs over a stand-in for CUDA's driver: memory in place, scratch memory, addresses, captures."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
pytest.importorskip("convfind_backend_cuda", reason="convfind-backend-cuda is not installed")
sys.path.append(str(Path(__file__).parents[2] / "backend-cuda" / "tests"))

from cuda_standin import TARGET, StandinDriver, standin

import convfind
from convfind.handle.convolution import Convolution
from convfind.problem import ConvProblem
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch
from convfind_backend_cuda.device import CudaDevice
from convfind_torch.device_place import DevicePlace, in_place
from convfind_torch.route import Way

PROGRAM = Program(KernelSource("convfind", "kernel_include/convfind_kernel.h"))
PROBLEM = ConvProblem.forward(x=(2, 3, 8, 8), w=(4, 3, 3, 3))
SCRATCH = 256


def of_address(address: int, shape: tuple[int, ...]) -> torch.Tensor:
    import ctypes
    import math

    memory = (ctypes.c_float * math.prod(shape)).from_address(address)
    return torch.frombuffer(memory, dtype=torch.float32).view(shape)


class Kernel:
    """A kernel that convolves; it remembers the addresses that it was launched with."""

    def __init__(self) -> None:
        self.launches: list[tuple[int, ...]] = []

    def __call__(self, data: bytes) -> None:
        addresses = struct.unpack("<4Q", data)
        self.launches.append(addresses)
        x, w, scratch, y = addresses
        of_address(scratch, (SCRATCH // 4,)).fill_(float("nan"))
        of_address(y, (2, 4, 6, 6)).copy_(
            torch.conv2d(of_address(x, (2, 3, 8, 8)), of_address(w, (4, 3, 3, 3)))
        )


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandinDriver]:
    with standin(monkeypatch) as replaced:
        yield replaced


@pytest.fixture
def kernel(driver: StandinDriver) -> Kernel:
    made = Kernel()
    driver.kernels["kernel"] = ((8, 8, 8, 8), made)
    return made


@pytest.fixture
def place(driver: StandinDriver) -> Iterator[DevicePlace]:
    with convfind.handle_for(CudaDevice(TARGET, 0, 0x50)) as handle:
        yield DevicePlace(handle, torch.device("cpu"))


def way(place: DevicePlace) -> Way:
    device: Any = place.handle.session.device
    arguments = tuple(BufferArg(name) for name in ("x", "w", "workspace", "y"))
    launch = Launch(KernelSpec(PROGRAM, "kernel"), arguments, (64,), (64,))
    invoker = device.invoker([launch], {PROGRAM: device.load_code(PROGRAM, b"")})
    nothing: Any = None
    convolution = Convolution(PROBLEM, nothing, nothing, device, invoker, SCRATCH)
    return Way(PROBLEM, place, convolution, torch.contiguous_format)


def tensors() -> dict[str, torch.Tensor]:
    return {"x": torch.randn(2, 3, 8, 8), "w": torch.randn(4, 3, 3, 3)}


def test_kernels_work_on_pytorchs_own_memory(
    driver: StandinDriver, kernel: Kernel, place: DevicePlace
) -> None:
    given, run = tensors(), way(place)
    driver.journal.clear()
    y = run.run(given)
    torch.testing.assert_close(y, torch.conv2d(given["x"], given["w"]))
    ((x, w, _, out),) = kernel.launches
    assert (x, w, out) == (given["x"].data_ptr(), given["w"].data_ptr(), y.data_ptr())
    assert [entry[0] for entry in driver.journal] == ["launch"]  # no copy, no wait, no allocation


def test_tensors_that_come_and_go_are_read_as_they_are_now(
    kernel: Kernel, place: DevicePlace
) -> None:
    run = way(place)
    for _ in range(5):
        given = tensors()
        torch.testing.assert_close(run.run(given), torch.conv2d(given["x"], given["w"]))


def test_a_tensor_at_an_odd_address_is_copied(kernel: Kernel, place: DevicePlace) -> None:
    given = tensors()
    given["x"] = torch.randn(2 * 3 * 64 + 1)[1:].view(2, 3, 8, 8)
    assert given["x"].data_ptr() % 16
    torch.testing.assert_close(way(place).run(given), torch.conv2d(given["x"], given["w"]))
    assert kernel.launches[0][0] % 16 == 0
    assert in_place(given["w"]) is given["w"]


def test_kernels_of_a_captured_call_stay_loaded(
    kernel: Kernel, place: DevicePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = way(place)
    monkeypatch.setattr(place, "_asked", lambda: True)
    run.run(tensors())
    assert list(place._captured.values()) == [run.convolution]


def test_nothing_is_found_while_a_graph_is_captured(
    place: DevicePlace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from convfind.types import Direction
    from convfind_torch.call import Call
    from convfind_torch.engine import Engine
    from convfind_torch.geometry import Geometry
    from convfind_torch.layer import Layer
    from convfind_torch.options import Options

    monkeypatch.setattr(place, "_asked", lambda: True)
    engine = Engine()
    monkeypatch.setattr(engine, "place", lambda tensor: place)
    given, layer = tensors(), Layer("test", Options.of())
    geometry = Geometry.of(2, 1, 0, 1, False, 0, 1)
    call = Call(Direction.FORWARD, given["x"], given["w"], None, None, geometry, layer)
    torch.testing.assert_close(engine.compute(call), torch.conv2d(given["x"], given["w"]))
    assert "call the model once before" in caplog.text
    assert not engine.route(call).is_final  # so that the next call decides anew
