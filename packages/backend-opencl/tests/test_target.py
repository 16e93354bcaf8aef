"""What a device says of itself."""

from __future__ import annotations

import json
from collections.abc import Callable

from convfind.device.host_cpu import host_arch, host_model
from convfind.device.target import DeviceKind
from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.device import OpenCLDevice

TARGETS = """
import json
from convfind_backend_opencl import OpenCLBackend
print(json.dumps([(t.identity, t.compiler) for t in OpenCLBackend().targets()]))
"""
#: The words that README explains.
WORDS = {
    *("dot4", "fp16", "fp64", "int8", "nv-ptx", "sub-groups", "intel-bf16", "unified-memory"),
}


def test_identities_are_the_same_in_another_process(
    backend: OpenCLBackend, device: OpenCLDevice, python: Callable[..., str]
) -> None:
    here = [[target.identity, target.compiler] for target in backend.targets()]
    assert device.target in backend.targets()
    assert json.loads(python(TARGETS).split("\n")[-1]) == here


def test_a_target_is_complete(device: OpenCLDevice) -> None:
    target = device.target
    assert target.backend == "opencl"
    rest = f"{target.arch}|{target.compute_units}"
    assert target.identities[-1] == f"opencl|{target.platform}|{target.name}|{rest}"
    assert target.cpu_model == (host_model() if target.kind is DeviceKind.CPU else "")
    assert target.cpu_model in target.identity
    for text in (target.name, target.vendor, target.platform, target.arch, target.driver):
        assert text
        assert text == " ".join(text.split())
    assert target.features <= WORDS
    assert target.has("int8")
    assert target.compute_units > 0
    assert target.local_memory >= 16 << 10
    assert target.global_memory > 256 << 20
    assert target.cache >= 256 << 10
    assert target.max_work_group >= 64


def test_the_arch_is_what_binaries_are_made_for(device: OpenCLDevice) -> None:
    target = device.target
    if target.kind is DeviceKind.CPU:
        assert target.arch == host_arch()
        assert target.wave_size == 1
    elif target.has("nv-ptx"):
        assert target.arch.startswith("sm_")
        assert target.wave_size == 32


def test_half_precision_is_what_kernels_can_use(device: OpenCLDevice) -> None:
    extensions = device.queue.device.extensions.split()
    assert device.target.has("fp16") == ("cl_khr_fp16" in extensions)
    assert device.target.has("fp64") == ("cl_khr_fp64" in extensions)
