"""`HipBackend`: finds AMD's GPUs, picks one, opens it.

hip-python is imported with the first question for a device and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.backend_kit.selection import select
from convfind.device.target import Target
from convfind.errors import BackendUnavailableError
from convfind.runtime.backend import Backend
from convfind_backend_hip.architectures import KNOWN, processor
from convfind_backend_hip.languages import LANGUAGES

if TYPE_CHECKING:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.device import HipDevice

_INSTALL = "install ROCm and its HIP runtime (libamdhip64, libhiprtc); set ROCM_PATH to its folder"


class HipBackend(Backend):
    """HIP through hip-python."""

    name = "hip"
    languages = LANGUAGES

    def __init__(self) -> None:
        self._found: tuple[Target, ...] = ()

    def targets(self) -> tuple[Target, ...]:
        """Return every device in HIP's order."""
        if not self._found:
            self._found = _discover()
        return self._found

    def open(self, selector: str = "") -> HipDevice:
        """Open a device by number, by ``gpu``, or by a part of its name or architecture."""
        from convfind_backend_hip.device import HipDevice

        number = select(self.name, selector, self.targets())
        return HipDevice.opened(number, self.targets()[number])

    def open_native(self, stream: int, number: int = 0) -> HipDevice:
        """Open a device on the caller's own stream, given as the handle's address (0: default).

        The stream must outlive the device that is returned; in PyTorch its address is
        ``torch.cuda.current_stream().cuda_stream``. Tensors that are passed belong to that stream,
        as those do that PyTorch makes while it is current; for others call ``record_stream``.
        """
        from convfind_backend_hip.device import HipDevice

        targets = self.targets()
        return HipDevice(targets[select(self.name, str(number), targets)], number, stream)

    def compiler_for(self, arch: str, compute_units: int | None = None) -> Compiler | None:
        """Return hiprtc for an instruction set, with its features as the device names them."""
        if processor(arch) not in KNOWN:
            return None
        check_runtime()
        from convfind_backend_hip.compiler import Compiler
        from convfind_backend_hip.target import absent

        return Compiler(absent(arch, compute_units))


def check_runtime() -> None:
    """Load HIP and its compiler. Raises `BackendUnavailableError` saying what to install."""
    try:
        from hip import hip, hiprtc
    except (ImportError, OSError) as exc:
        msg = f"hip-python does not import ({exc}); install it with: pip install hip-python"
        raise BackendUnavailableError(msg) from exc
    try:
        # hip-python loads a library at the first call into it.
        hip.hipRuntimeGetVersion()
        hiprtc.hiprtcVersion()
    except (RuntimeError, OSError) as exc:
        msg = f"the HIP runtime does not load ({exc}); {_INSTALL}"
        raise BackendUnavailableError(msg) from exc


def _discover() -> tuple[Target, ...]:
    check_runtime()
    from hip import hip

    from convfind_backend_hip.target import describe

    status, count = hip.hipGetDeviceCount()
    if status or not count:
        msg = f"no hip device found ({status.name}); install AMD's GPU driver and check rocminfo"
        raise BackendUnavailableError(msg)
    return tuple(describe(number) for number in range(count))
