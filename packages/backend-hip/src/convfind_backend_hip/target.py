"""`Target` of a HIP device: what the device says, in the words that solvers ask for."""

from __future__ import annotations

from hip import hip, hiprtc

from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError
from convfind_backend_hip.architectures import KNOWN, feature_words, processor
from convfind_backend_hip.errors import checked
from convfind_backend_hip.rocblas import has_library

_LOCAL_MEMORY = 64 * 1024
_GLOBAL_MEMORY = 16 << 30
_MAX_WORK_GROUP = 1024


def describe(number: int) -> Target:
    """Return the target of a device. Raises `DeviceError`."""
    properties = checked(
        hip.hipGetDeviceProperties(number), "hipGetDeviceProperties", f"looking at device {number}"
    )
    arch = _text(properties.gcnArchName)
    features = set(feature_words(arch))
    if properties.integrated:
        features.add("unified-memory")
    if has_library():
        features.add("rocblas")
    known = KNOWN.get(processor(arch))
    return Target(
        backend="hip",
        name=_text(properties.name) or arch,
        kind=DeviceKind.GPU,
        vendor="Advanced Micro Devices",
        platform="ROCm",
        arch=arch,
        compute_units=properties.multiProcessorCount,
        driver=driver(),
        features=frozenset(features),
        local_memory=properties.sharedMemPerBlock,
        global_memory=properties.totalGlobalMem,
        cache=max(properties.l2CacheSize, known.cache if known else 0),
        max_work_group=properties.maxThreadsPerBlock,
        wave_size=properties.warpSize,
    )


def absent(arch: str, compute_units: int | None = None) -> Target:
    """Return the target of a device that is not here, for compiling.

    Binaries are kept for exactly this ``arch``: name it as the device does, features included.
    """
    known = KNOWN.get(processor(arch))
    if known is None:
        msg = f"no such target: {arch!r}; known: {', '.join(KNOWN)}, each with features behind a :"
        raise DeviceError(msg)
    return Target(
        backend="hip",
        name=known.name,
        kind=DeviceKind.GPU,
        vendor="Advanced Micro Devices",
        platform="ROCm",
        arch=arch,
        compute_units=compute_units or known.compute_units,
        driver=driver(),
        features=feature_words(arch) | {"rocblas"},
        local_memory=_LOCAL_MEMORY,
        global_memory=_GLOBAL_MEMORY,
        cache=known.cache,
        max_work_group=_MAX_WORK_GROUP,
        wave_size=known.wave_size,
    )


def driver() -> str:
    """Return the versions of HIP and of its compiler; the same with and without a device."""
    doing = "looking at the HIP runtime"
    runtime = checked(hip.hipRuntimeGetVersion(), "hipRuntimeGetVersion", doing)
    status, *version = hiprtc.hiprtcVersion()
    if status:
        msg = f"{doing}: hiprtcVersion failed with {status.name}; reinstall ROCm's hiprtc"
        raise DeviceError(msg)
    return f"HIP {runtime} hiprtc {'.'.join(map(str, version))}"


def _text(value: bytes | str) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return " ".join(text.replace("\0", " ").split())
