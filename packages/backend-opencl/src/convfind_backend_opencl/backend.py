"""`OpenCLBackend`: finds the devices of every platform, picks one, opens it.

pyopencl is imported with the first question for a device and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.backend_kit.selection import select
from convfind.device.target import DeviceKind, Target
from convfind.errors import BackendUnavailableError
from convfind.install_hint import pip_install
from convfind.log import logger
from convfind.runtime.backend import Backend
from convfind_backend_opencl.cpu_runtime import (
    unlisted_platforms,
    users_choice,
    visible_runtimes,
)
from convfind_backend_opencl.languages import LANGUAGES

if TYPE_CHECKING:
    import pyopencl as cl

    from convfind_backend_opencl.device import OpenCLDevice

_KINDS = (DeviceKind.GPU, DeviceKind.ACCELERATOR, DeviceKind.CPU)
#: Words in a target's platform or vendor, best first.
_VENDORS = {
    DeviceKind.GPU: ("nvidia", "advanced micro devices", "amd", "intel"),
    DeviceKind.CPU: ("intel(r) opencl", "portable computing language"),
}


class OpenCLBackend(Backend):
    """OpenCL through pyopencl."""

    name = "opencl"
    languages = LANGUAGES

    def __init__(self) -> None:
        self._found: list[tuple[cl.Device, Target]] | None = None

    def targets(self) -> tuple[Target, ...]:
        """Return every device, best first."""
        return tuple(target for _, target in self._devices())

    def open(self, selector: str = "") -> OpenCLDevice:
        """Open a device by number, kind, or a part of vendor, name or platform."""
        from convfind_backend_opencl.device import OpenCLDevice

        devices = self._devices()
        native, target = devices[select(self.name, selector, [target for _, target in devices])]
        return OpenCLDevice.opened(native, target)

    def open_native(self, context: cl.Context, queue: cl.CommandQueue) -> OpenCLDevice:
        """Open the device of the caller's own context and in-order queue."""
        from convfind_backend_opencl import interop
        from convfind_backend_opencl.device import OpenCLDevice
        from convfind_backend_opencl.target import describe

        interop.check_queue(context, queue)
        return OpenCLDevice(describe(queue.device), context, queue)

    def _devices(self) -> list[tuple[cl.Device, Target]]:
        if self._found is None:
            self._found = sorted(_discover(), key=lambda found: _rank(found[1]))
        if not self._found:
            msg = f"no opencl device found; {_install()}"
            raise BackendUnavailableError(msg)
        return self._found


def _install() -> str:
    command = pip_install("convfind-backend-opencl[cpu]")
    return f"install a GPU vendor's driver, or a CPU runtime with {command}"


def _rank(target: Target) -> tuple[int, int, int]:
    text = f"{target.platform} {target.vendor}".lower()
    words = _VENDORS.get(target.kind, ())
    vendor = next((index for index, word in enumerate(words) if word in text), len(words))
    return _KINDS.index(target.kind), vendor, -target.compute_units


def _discover() -> list[tuple[cl.Device, Target]]:
    try:
        import pyopencl as cl

        from convfind_backend_opencl.target import describe
    except (ImportError, OSError) as exc:
        msg = f"pyopencl does not import ({exc}); install it with: pip install pyopencl"
        raise BackendUnavailableError(msg) from exc
    why = "the loader lists none"
    try:
        with visible_runtimes():
            platforms = cl.get_platforms()
    except cl.Error as exc:
        platforms, why = [], str(exc)
    listed = {platform.int_ptr for platform in platforms}
    platforms += map(cl.Platform.from_int_ptr, unlisted_platforms(listed))
    if not platforms:
        choice = users_choice()
        only = f"unset OCL_ICD_VENDORS, which is {choice}, or " if choice else ""
        msg = f"no opencl platform found ({why}); {only}{_install()}"
        raise BackendUnavailableError(msg)
    found = []
    for platform in platforms:
        try:
            found += [(device, describe(device)) for device in platform.get_devices()]
        except cl.Error as exc:
            logger.warning("opencl platform %s is left out: %s", platform.name, exc)
    return found
