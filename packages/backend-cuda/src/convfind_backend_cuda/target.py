"""`Target` of a CUDA device: what the device says, in the words that solvers ask for."""

from __future__ import annotations

from dataclasses import replace

from cuda.bindings import driver, nvrtc

from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError
from convfind_backend_cuda.architectures import FEATURES, KNOWN, plain
from convfind_backend_cuda.cublas import has_library
from convfind_backend_cuda.errors import checked

#: Bytes of local memory that kernels declare; more is the launch's to ask for.
_LOCAL_MEMORY = 48 * 1024
_MAX_WORK_GROUP = 1024
_WAVE = 32


def describe(number: int) -> Target:
    """Return the target of a device. Raises `DeviceError`."""
    doing = f"looking at CUDA device {number}"
    device = checked(driver.cuDeviceGet(number), "cuDeviceGet", doing)

    def attribute(name: str) -> int:
        which = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        asked = driver.cuDeviceGetAttribute(which, device)
        value: int = checked(asked, "cuDeviceGetAttribute", doing)
        return value

    name = checked(driver.cuDeviceGetName(256, device), "cuDeviceGetName", doing)
    memory = checked(driver.cuDeviceTotalMem(device), "cuDeviceTotalMem", doing)
    major = attribute("COMPUTE_CAPABILITY_MAJOR")
    features = set(FEATURES)
    if attribute("INTEGRATED"):
        features.add("unified-memory")
    if has_library():
        features.add("cublas")
    return Target(
        backend="cuda",
        name=" ".join(name.replace(b"\0", b" ").decode(errors="replace").split()),
        kind=DeviceKind.GPU,
        vendor="NVIDIA Corporation",
        platform="CUDA",
        arch=f"sm_{10 * major + attribute('COMPUTE_CAPABILITY_MINOR')}",
        compute_units=attribute("MULTIPROCESSOR_COUNT"),
        driver=software(),
        features=frozenset(features),
        local_memory=attribute("MAX_SHARED_MEMORY_PER_BLOCK"),
        global_memory=memory,
        cache=attribute("L2_CACHE_SIZE"),
        max_work_group=attribute("MAX_THREADS_PER_BLOCK"),
        wave_size=attribute("WARP_SIZE"),
    )


def absent(arch: str, compute_units: int | None = None) -> Target:
    """Return the target of a device that is not here, for compiling. Raises `DeviceError`."""
    known = KNOWN.get(plain(arch))
    if known is None:
        msg = f"no such target: {arch!r}; known: {', '.join(KNOWN)}"
        raise DeviceError(msg)
    target = Target(
        backend="cuda",
        name=known.name,
        kind=DeviceKind.GPU,
        vendor="NVIDIA Corporation",
        platform="CUDA",
        arch=plain(arch),
        compute_units=known.compute_units,
        driver=software(),
        features=FEATURES | {"cublas"},
        local_memory=_LOCAL_MEMORY,
        global_memory=known.memory,
        cache=known.cache,
        max_work_group=_MAX_WORK_GROUP,
        wave_size=_WAVE,
    )
    if compute_units is None:
        return target
    return replace(target, compute_units=compute_units, identity="")


def software() -> str:
    """Return the version of NVRTC, which alone decides about binaries; the driver loads them."""
    status, *version = nvrtc.nvrtcVersion()
    if status:
        msg = f"looking at NVRTC: nvrtcVersion failed with {status.name}; reinstall it"
        raise DeviceError(msg)
    return f"NVRTC {'.'.join(map(str, version))}"
