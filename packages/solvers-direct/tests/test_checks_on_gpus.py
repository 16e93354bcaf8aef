"""Checks of candidates on a GPU, or a CPU that passes for one, which compares by itself."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices_for_tests import as_gpu

from convfind.checking import workbench
from convfind.checking.draws import timed_draw
from convfind.checking.guards import poisoned
from convfind.checking.held import Held
from convfind.checking.workbench import Workbench
from convfind.errors import VerificationError
from convfind.finddb import BinaryStore, FindDb
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device
from convfind.runtime.kernel_cache import KernelCache
from convfind.runtime.session import Session
from convfind.solver import asking

pytest_plugins = ["convfind.testing.fixtures"]


@pytest.mark.parametrize(
    "epilogue",
    [
        {},
        {"bias": True, "activation": "relu"},
        {"bias": True, "add": True},
        {"bias": True, "add": True, "beta": 0.5, "activation": "silu", "layout": "NHWC"},
    ],
)
def test_no_result_of_a_candidate_is_read_back(
    convfind_device: Device, monkeypatch: pytest.MonkeyPatch, epilogue: dict[str, Any]
) -> None:
    features = convfind_device.target.features - {"unified-memory"}
    gpu = as_gpu(convfind_device, compute_units=8, features=features)
    if gpu.target.has("unified-memory") or not gpu.target.has("fp64"):
        pytest.skip(f"{gpu.target.name} shares the host's memory, or lacks double precision")
    kernels = KernelCache(gpu, BinaryStore.open(None), 1)
    far = Session(gpu, default_registry(), FindDb.open(None), kernels)
    monkeypatch.setattr("convfind.checking.conv_draw._HOST_REFERENCE_MACS", 0)
    problem = ConvProblem.forward(x=(12, 8, 40, 40), w=(16, 8, 3, 3), padding=1, **epilogue)
    solver = far.registry.find_solver("direct-naive-fwd")
    assert solver is not None
    bench = Workbench(problem, far, constant_weights=False)
    reads: list[int] = []
    read = far.device.read

    def watched(buffer: Any, array: Any, offset: int = 0) -> None:
        reads.append(array.nbytes)
        read(buffer, array, offset)

    monkeypatch.setattr(far.device, "read", watched)
    bench.make_ready(verify=True)
    assert bench.first.draw.compared is not None
    assert bench.sets[0].draw.compared is not None, "the device is believed, as it was right"
    recipe = asking.recipe(solver, problem, far.target)
    candidate = bench.candidate(recipe, far.kernels.load_or_raise(recipe.programs))
    assert candidate.verify(solver).error.max_error < 1e-5
    candidate.sample()
    candidate.confirm(solver)
    result = problem.operand("y").nbytes
    assert result not in reads
    place = bench.next_set()
    candidate.run_on(place)
    y = place.results["y"]
    far.device.write(y.buffer, np.append(poisoned(y.guard), np.full(4, 0x45, np.uint8)))
    with pytest.raises(VerificationError, match="right at first, and wrong when it was timed"):
        bench.check_again(place, solver)
    held = bench.first.draw.compared
    assert isinstance(held, Held)
    far.device.fill(held.memory.buffer, 1)
    assert candidate.verify(solver).error.max_error < 1e-5, "NumPy knows what is right"
    assert result in reads


@pytest.mark.parametrize("batch", [1, 12])
def test_a_right_candidate_passes_where_strides_permute_its_result(
    convfind_device: Device, batch: int
) -> None:
    features = convfind_device.target.features - {"unified-memory"}
    gpu = as_gpu(convfind_device, compute_units=8, features=features)
    kernels = KernelCache(gpu, BinaryStore.open(None), 1)
    far = Session(gpu, default_registry(), FindDb.open(None), kernels)
    shape = (batch, 16, 40, 40)
    problem = ConvProblem.forward((batch, 8, 40, 40), (16, 8, 3, 3), padding=1, bias=True)
    problem = replace(problem, y_strides=(16 * 1600, 1600, 1, 40))
    assert problem.shape("y") == shape
    solver = far.registry.find_solver("direct-naive-fwd")
    assert solver is not None
    bench = Workbench(problem, far, constant_weights=False)
    bench.make_ready(verify=True)
    recipe = asking.recipe(solver, problem, far.target)
    candidate = bench.candidate(recipe, far.kernels.load_or_raise(recipe.programs))
    assert candidate.verify(solver).error.max_error < 1e-5
    candidate.confirm(solver)


@pytest.mark.parametrize(("memory", "drawn"), [(1 << 34, 1), (1 << 17, 0)])
def test_a_gpu_draws_the_timed_tensors_once_and_only_where_they_fit(
    convfind_device: Device, monkeypatch: pytest.MonkeyPatch, memory: int, drawn: int
) -> None:
    features = convfind_device.target.features - {"unified-memory"}
    gpu = as_gpu(convfind_device, compute_units=8, features=features, global_memory=memory)
    if not drawn and gpu.target.global_memory > memory:
        pytest.skip(f"{gpu.target.name} has room for several copies of the tensors")
    kernels = KernelCache(gpu, BinaryStore.open(None), 1)
    far = Session(gpu, default_registry(), FindDb.open(None), kernels)
    draws: list[Any] = []

    def noted(problem: Any, seed: int) -> Any:
        draws.append(problem)
        return timed_draw(problem, seed)

    monkeypatch.setattr(workbench, "timed_draw", noted)
    problem = ConvProblem.forward(x=(2, 8, 40, 40), w=(16, 8, 3, 3), padding=1)
    bench = Workbench(problem, far, constant_weights=False)
    bench.make_ready(verify=True)
    bench.make_ready(verify=True)
    assert len(draws) == drawn
    assert (bench.sets[0] is bench.first) == (not drawn)


def test_memory_goes_with_the_workbench(convfind_device: Device) -> None:
    """At once: until the collector comes by, the tensors of several problems would pile up."""
    gpu = as_gpu(convfind_device, compute_units=8)
    kernels = KernelCache(gpu, BinaryStore.open(None), 1)
    session = Session(gpu, default_registry(), FindDb.open(None), kernels)
    problem = ConvProblem.forward(x=(2, 8, 40, 40), w=(16, 8, 3, 3), padding=1)
    bench = Workbench(problem, session, constant_weights=False)
    bench.make_ready(verify=True)
    gone = weakref.ref(bench.sets[0].draw), weakref.ref(bench)
    gc.disable()
    try:
        del bench
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()
