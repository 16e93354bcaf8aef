"""`Target` of a pyopencl device: what the device says, in the words that solvers ask for."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

import pyopencl as cl

from convfind.device.host_cpu import host_arch, host_model
from convfind.device.target import DeviceKind, Target

_CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CUDA_L2_CACHE_SIZE = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
_FIRST_DP4A = 61


def describe(device: cl.Device) -> Target:
    """Return the target of a device."""
    kind = _kind(device)
    return Target(
        backend="opencl",
        name=_squeezed(str(_get(device, "board_name_amd") or device.name)),
        kind=kind,
        vendor=_squeezed(device.vendor),
        platform=_squeezed(device.platform.name),
        arch=_arch(device, kind),
        compute_units=device.max_compute_units,
        driver=_squeezed(f"{device.driver_version} {device.platform.version}"),
        features=_features(device),
        local_memory=device.local_mem_size,
        global_memory=device.global_mem_size,
        cache=_cache(device, kind),
        max_work_group=device.max_work_group_size,
        wave_size=_wave_size(device, kind),
        cpu_model=host_model() if kind is DeviceKind.CPU else "",
    )


def is_nvidia(device: cl.Device) -> bool:
    """True where NVIDIA's own driver runs the device: inline PTX and ``-cl-nv-verbose`` work."""
    return "cl_nv_compiler_options" in device.extensions.split()


def _kind(device: cl.Device) -> DeviceKind:
    if device.type & cl.device_type.GPU:
        return DeviceKind.GPU
    if device.type & cl.device_type.CPU:
        return DeviceKind.CPU
    return DeviceKind.ACCELERATOR


def _features(device: cl.Device) -> frozenset[str]:
    """The feature words; README explains each."""
    extensions = set(device.extensions.split())
    has = {
        "fp16": "cl_khr_fp16" in extensions,
        "fp64": "cl_khr_fp64" in extensions,
        "int8": True,  # OpenCL C has 8-bit integers everywhere
        "dot4": is_nvidia(device) and _compute_capability(device) >= _FIRST_DP4A,
        "nv-ptx": is_nvidia(device),
        "sub-groups": bool(extensions & {"cl_khr_subgroups", "cl_intel_subgroups"}),
        "intel-bf16": "cl_intel_bfloat16" in extensions,
        "unified-memory": bool(device.host_unified_memory),
    }
    return frozenset(word for word, there in has.items() if there)


def _arch(device: cl.Device, kind: DeviceKind) -> str:
    if is_nvidia(device):
        return f"sm_{_compute_capability(device)}"
    if kind is DeviceKind.CPU:
        return host_arch()
    # AMD's device name is the instruction set: "gfx90a:sramecc+:xnack-".
    return re.sub(r"\s+", "-", device.name.strip().lower())


def _compute_capability(device: cl.Device) -> int:
    """90 for sm_90."""
    number: int = 10 * device.compute_capability_major_nv + device.compute_capability_minor_nv
    return number


def _cache(device: cl.Device, kind: DeviceKind) -> int:
    """Size of the last-level cache, which neither CPU nor NVIDIA drivers report faithfully."""
    reported = device.global_mem_cache_size
    if kind is DeviceKind.CPU:
        return max(reported, _host_cache())
    if is_nvidia(device):
        return max(reported, _nvidia_l2_cache(device))
    return reported


def _host_cache() -> int:
    sizes = [file.read_text(encoding="utf-8").strip() for file in _CPU_CACHES.glob("index*/size")]
    kibibytes = [int(size[:-1]) for size in sizes if re.fullmatch(r"\d+K", size)]
    return max(kibibytes, default=0) * 1024


def _nvidia_l2_cache(device: cl.Device) -> int:
    """Ask the CUDA driver, which is there wherever NVIDIA's OpenCL is; makes no CUDA context."""
    bus = f"{_get(device, 'pci_domain_id_nv') or 0:04x}:{device.pci_bus_id_nv:02x}"
    bus += f":{device.pci_slot_id_nv:02x}.0"
    handle, size = ctypes.c_int(), ctypes.c_int()
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return 0
    failed = (
        cuda.cuInit(0)
        or cuda.cuDeviceGetByPCIBusId(ctypes.byref(handle), bus.encode())
        or cuda.cuDeviceGetAttribute(ctypes.byref(size), _CUDA_L2_CACHE_SIZE, handle)
    )
    return 0 if failed else size.value


def _wave_size(device: cl.Device, kind: DeviceKind) -> int:
    if kind is DeviceKind.CPU:
        return 1
    names = ("warp_size_nv", "wavefront_width_amd", "preferred_work_group_size_multiple")
    return next((int(size) for name in names if (size := _get(device, name))), 1)


def _get(device: cl.Device, name: str) -> str | int | None:
    """An attribute that only some vendors' devices have; None on the others."""
    try:
        value: str | int = getattr(device, name)
    except (cl.Error, AttributeError):
        return None
    return value


def _squeezed(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())
