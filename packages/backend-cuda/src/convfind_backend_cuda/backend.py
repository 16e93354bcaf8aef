"""`CudaBackend`: finds NVIDIA's GPUs, picks one, opens it.

CUDA's bindings are imported with the first question for a device and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.backend_kit.selection import select
from convfind.device.target import Target
from convfind.errors import BackendUnavailableError
from convfind.runtime.backend import Backend
from convfind_backend_cuda.architectures import KNOWN, plain
from convfind_backend_cuda.languages import LANGUAGES

if TYPE_CHECKING:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.device import CudaDevice

_DRIVER = "install NVIDIA's driver, and check nvidia-smi"
_NVRTC = "install it with: pip install nvidia-cuda-nvrtc"


class CudaBackend(Backend):
    """CUDA through its driver API and NVRTC."""

    name = "cuda"
    languages = LANGUAGES

    def __init__(self) -> None:
        self._found: tuple[Target, ...] = ()

    def targets(self) -> tuple[Target, ...]:
        """Return every device in CUDA's order."""
        if not self._found:
            self._found = _discover()
        return self._found

    def open(self, selector: str = "") -> CudaDevice:
        """Open a device by number, by ``gpu``, or by a part of its name or architecture.

        Work goes to PyTorch's current stream, where PyTorch uses CUDA, else to the default stream.
        """
        from convfind_backend_cuda.device import CudaDevice

        number = select(self.name, selector, self.targets())
        return CudaDevice(self.targets()[number], number)

    def open_native(self, stream: object, number: int = 0) -> CudaDevice:
        """Open a device on one stream of the caller's, and no other.

        Args:
            stream: the address of its handle (0: the default stream), or an object with
                ``__cuda_stream__``. It must outlive the device that is returned. PyTorch's tensors
                that are passed belong to it; for others of them call ``record_stream``.
            number: of the device.
        """
        from convfind_backend_cuda.device import CudaDevice
        from convfind_backend_cuda.stream import address_of

        targets = self.targets()
        target = targets[select(self.name, str(number), targets)]
        return CudaDevice(target, number, address_of(stream))

    def compiler_for(self, arch: str, compute_units: int | None = None) -> Compiler | None:
        """Return NVRTC for an architecture, which needs neither a GPU nor its driver."""
        if plain(arch) not in KNOWN:
            return None
        check_compiler()
        from convfind_backend_cuda.compiler import Compiler
        from convfind_backend_cuda.target import absent

        return Compiler(absent(arch, compute_units))


def check_compiler() -> None:
    """Load NVRTC. Raises `BackendUnavailableError` saying what to install."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as exc:
        msg = f"cuda-bindings does not import ({exc}); install it with: pip install cuda-bindings"
        raise BackendUnavailableError(msg) from exc
    try:
        nvrtc.nvrtcVersion()  # the library is loaded by the first call into it
    except (RuntimeError, OSError) as exc:
        msg = f"NVRTC does not load ({_first_line(exc)}); {_NVRTC}"
        raise BackendUnavailableError(msg) from exc


def _discover() -> tuple[Target, ...]:
    check_compiler()
    from cuda.bindings import driver

    try:
        (status,) = driver.cuInit(0)
    except (RuntimeError, OSError) as exc:
        msg = f"the CUDA driver does not load ({_first_line(exc)}); {_DRIVER}"
        raise BackendUnavailableError(msg) from exc
    count = 0
    if not status:
        status, count = driver.cuDeviceGetCount()
    if status or not count:
        why = status.name if status else "none is visible"
        msg = f"no cuda device found ({why}); {_DRIVER} and CUDA_VISIBLE_DEVICES"
        raise BackendUnavailableError(msg)
    from convfind_backend_cuda.target import describe

    return tuple(describe(number) for number in range(count))


def _first_line(exc: Exception) -> str:
    return str(exc).partition("\n")[0]
