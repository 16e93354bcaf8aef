"""GPUs over a stand-in for CUDA's driver: memory in place, scratch memory, addresses, captures."""

from __future__ import annotations

import copy
import struct
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
pytest.importorskip("convfind_backend_cuda", reason="convfind-backend-cuda is not installed")
sys.path.append(str(Path(__file__).parents[2] / "backend-cuda" / "tests"))

from cuda_standin import TARGET, StandinDriver, standin

import convfind
import convfind_torch
from convfind.handle.convolution import Convolution
from convfind.problem import ConvProblem
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch
from convfind_backend_cuda.device import CudaDevice
from convfind_torch.device_place import DevicePlace, DeviceRun, in_place
from convfind_torch.engine import Engine
from convfind_torch.modules import layer_of
from convfind_torch.quick_call import QuickCall
from convfind_torch.route import Route, Way

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
def place(driver: StandinDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[DevicePlace]:
    # A build of PyTorch for CUDA would ask the real driver whether it captures.
    monkeypatch.setattr(torch.version, "cuda", None)
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


def test_plans_work_on_pytorchs_own_memory_by_addresses(
    driver: StandinDriver, kernel: Kernel, place: DevicePlace
) -> None:
    plans = pytest.importorskip("convfind_networks.plan")
    tensor_type = pytest.importorskip("convfind_networks.tensor_type").TensorType
    convolution, device = way(place).convolution, place.handle.session.device

    def port(name: str, memory: str, *shape: int) -> Any:
        kind = tensor_type(np.dtype(np.float32), shape)
        return plans.Port(name, kind, plans.Place(memory))

    schedule: Any = SimpleNamespace(
        inputs=(port("a", "x", 2, 3, 8, 8), port("b", "w", 4, 3, 3, 3), port("none", "", 0)),
        outputs=(port("c", "y", 2, 4, 6, 6),),
    )
    scratch = {"workspace": device.allocate(SCRATCH)}
    plan = plans.Plan(schedule, place.handle, (), convolution.invoker, scratch)
    driver.journal.clear()
    for _ in range(2):
        x, w = torch.randn(2, 8, 8, 3).permute(0, 3, 1, 2), torch.randn(4 * 27 + 1)[1:]
        given = {"b": w.view(4, 3, 3, 3), "none": torch.empty(0), "a": x.requires_grad_()}
        (y,) = place.run_network(plan, given)
        torch.testing.assert_close(y, torch.conv2d(x, given["b"]).detach())
        assert kernel.launches[-1][3] == y.data_ptr()
        assert all(address % 16 == 0 for address in kernel.launches[-1])
    assert [entry[0] for entry in driver.journal] == ["launch"] * 2


def test_kernels_of_a_captured_call_stay_loaded(
    kernel: Kernel, place: DevicePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = way(place)
    monkeypatch.setattr(place, "_asked", lambda: True)
    run.run(tensors())
    assert list(place._captured.values()) == [run.convolution]


def test_a_captured_call_takes_no_addresses_of_the_moment(
    driver: StandinDriver, kernel: Kernel, place: DevicePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, given = way(place), tensors()
    assert isinstance(run.ready, DeviceRun)
    y = run.run(given)
    monkeypatch.setattr(place, "_asked", lambda: True)
    again = run.run(given)
    assert run.convolution in place._captured.values()
    assert kernel.launches[1][:2] == kernel.launches[0][:2]
    torch.testing.assert_close(again, y)
    monkeypatch.setattr(place, "_asked", lambda: False)
    torch.testing.assert_close(run.run(given), y)


class Bound:
    """Weights bound as a backend binds them: a copy of them on the device."""

    def __init__(self, of: Way) -> None:
        self.way, self.count = of, 0

    def __call__(self, solution: Any, w: torch.Tensor) -> Convolution:
        self.count += 1
        device: Any = self.way.place.handle.session.device
        kept = device.upload(w.detach().numpy())
        return replace(self.way.convolution, bound={"w": kept})


@pytest.fixture
def bound(place: DevicePlace, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> Bound:
    """Let every convolution of the process be the kernel's, on the device of the stand-in."""
    engine, made = Engine(), way(place)

    def found(self: Engine, place: DevicePlace, problem: ConvProblem, call: Any) -> Route:
        assert problem == PROBLEM
        return Route(problem.key, "a kernel", made)

    monkeypatch.setattr(Engine, "_found", found)
    monkeypatch.setattr(engine, "place", lambda tensor: place)
    for module in ("autograd", "casting", "functional", "known_calls"):
        monkeypatch.setattr(f"convfind_torch.{module}.engine", lambda: engine)
    binding = Bound(made)
    monkeypatch.setattr(place, "bind", binding)
    return binding


@pytest.mark.parametrize("constant", [False, True])
def test_quick_calls_launch_kernels_and_do_nothing_else(
    driver: StandinDriver, kernel: Kernel, bound: Bound, constant: bool
) -> None:
    plain, x = nn.Conv2d(3, 4, 3, bias=False), torch.randn(2, 3, 8, 8)
    model = convfind_torch.convert(
        copy.deepcopy(plain), mode="FAST", keep_faster=False, constant_weights=constant
    )
    with torch.no_grad():
        for _ in range(2):
            model(x)
        (quick,) = layer_of(model).quick.values()
        assert isinstance(quick, QuickCall)
        assert isinstance(quick.kernels.run, DeviceRun)
        assert (quick.bound is not None) == constant
        assert bound.count == constant
        for _ in range(3):
            driver.journal.clear()
            x = torch.randn_like(x)
            torch.testing.assert_close(model(x), plain(x))
            assert [entry[0] for entry in driver.journal] == ["launch"]
            assert kernel.launches[-1][0] == x.data_ptr()
            is_read_in_place = kernel.launches[-1][1] == model.weight.data_ptr()
            assert is_read_in_place != constant
        assert bound.count == constant
        for one in (model, plain):
            one.weight.mul_(2)
        for _ in range(3):
            torch.testing.assert_close(model(x), plain(x))
        assert bound.count == 2 * constant


def test_bound_weights_of_a_captured_call_are_read_where_they_lie(
    kernel: Kernel, bound: Bound, place: DevicePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Conv2d(3, 4, 3, bias=False)
    convfind_torch.convert(model, mode="FAST", keep_faster=False, constant_weights=True)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        for _ in range(3):
            model(x)
        assert kernel.launches[-1][1] != model.weight.data_ptr()
        monkeypatch.setattr(place, "_asked", lambda: True)
        model(x)
    assert kernel.launches[-1][1] == model.weight.data_ptr()


def test_nothing_is_found_while_a_graph_is_captured(
    place: DevicePlace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from convfind.types import Direction
    from convfind_torch.call import Call
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
