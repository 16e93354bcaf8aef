"""Devices for the tests of solvers: CPUs that pass for GPUs, compilers that do not take minutes."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import Any
from zlib import crc32

import pytest

from convfind.device.target import DeviceKind
from convfind.plugins.registry import default_registry
from convfind.runtime.backend import Device
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind.testing import MOCK_TARGET

_POCL = "Portable Computing Language"
#: A GPU of nobody's, for what solvers say about one.
PLAIN_GPU = replace(
    MOCK_TARGET,
    identity="",
    backend="opencl",
    kind=DeviceKind.GPU,
    compute_units=132,
    local_memory=48 * 1024,
    max_work_group=1024,
)
H200 = replace(
    PLAIN_GPU, name="NVIDIA H200", identity="", arch="sm_90", features=frozenset({"nv-ptx"})
)


def as_gpu(device: Device, **changes: Any) -> Device:
    """Return a CPU with a target changed to a GPU's, and a GPU as it is."""
    if device.target.kind is DeviceKind.GPU:
        return device
    return disguised(device, kind=DeviceKind.GPU, **changes)


def as_small_gpu(device: Device) -> Device:
    """Return a CPU as a GPU of few units and little memory, and a GPU as it is."""
    return as_gpu(device, compute_units=8, local_memory=48 * 1024)


@cache
def disguised(device: Device, **changes: Any) -> Device:
    """Return a device with a changed target, the same one each time: programs are compiled once.

    A CPU compiles `as_written`: what it optimises is the code of a CPU, which never gets these
    kernels. On the stand-in ROCm they run optimised.
    """
    copied = copy.copy(device if device.target.kind is DeviceKind.GPU else as_written(device))
    copied.target = replace(device.target, identity="", **changes)
    return copied


def of_instructions(device: Device, arch: str) -> Device:
    """Return a CPU that gets the tiles of an instruction set."""
    return device if device.target.arch == arch else disguised(device, arch=arch)


def on_cpu(device: Device) -> Device:
    """Return a CPU that compiles `mostly_as_written`, or skip the test."""
    if device.target.kind is not DeviceKind.CPU:
        pytest.skip(f"{device.target.name} is no CPU")
    return mostly_as_written(device)


@cache
def mostly_as_written(device: Device) -> Device:
    """Return a CPU that optimises the first program of each kernel file, and one in twelve others.

    Which index a kernel gets wrong at an edge does not depend on optimisation, which takes nine
    tenths of a test. ``tests/integration`` runs every solver optimised. PoCL, which takes ten times
    as long, optimises none. A GPU stays as it is.
    """
    if device.target.kind is DeviceKind.GPU:
        return device
    plain = as_written(device)
    if device.target.platform.startswith(_POCL):
        return plain
    copied = copy.copy(device)
    seen: set[KernelSource] = set()

    def compile_some_optimised(program: Program) -> bytes:
        is_first = program.source not in seen
        seen.add(program.source)
        options = " ".join(program.all_options)
        chosen = device if is_first or crc32(options.encode()) % 12 == 0 else plain
        return chosen.compile(program)

    copied.compile = compile_some_optimised  # type: ignore[method-assign]
    return copied


def repeats_another(device: Device) -> bool:
    """Say whether the same CPU is here with another runtime, which compiles faster."""
    return device.target.platform.startswith(_POCL) and _has_faster_runtime()


@cache
def _has_faster_runtime() -> bool:
    targets = default_registry().backends["opencl"].targets()
    return any(
        target.kind is DeviceKind.CPU and not target.platform.startswith(_POCL)
        for target in targets
    )


@cache
def as_written(device: Device) -> Device:
    """Return a device that compiles without optimisation, which takes a tenth of the time.

    PoCL takes ten times as long as Intel's runtime with it, and PoCL 3.1 gets an accumulator of
    GPUs' tiles wrong; why is not found. Devices of other backends stay as they are.
    """
    if device.target.backend != "opencl":
        return device
    copied = copy.copy(device)

    def compile_as_written(program: Program) -> bytes:
        return device.compile(replace(program, options=(*program.options, "-cl-opt-disable")))

    copied.compile = compile_as_written  # type: ignore[method-assign]
    return copied
