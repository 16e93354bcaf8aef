"""Code objects in a device's memory, and the kernels in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hip import hip

from convfind.backend_kit.launching import check_entry, launch_name
from convfind.errors import DeviceError, KernelBuildError, LaunchError
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind_backend_hip.code_object import KernelFacts, kernels_of
from convfind_backend_hip.errors import checked


class LoadedProgram:
    """A program that is ready to run; unloaded with the last reference."""

    __slots__ = ("_code", "_unload", "facts", "native")

    def __init__(self, native: Any, code: bytes, facts: Mapping[str, KernelFacts]) -> None:
        self.native = native
        #: Kernels by name; empty where the code object does not tell.
        self.facts = facts
        self._code = code  # some runtimes read it later
        self._unload = hip.hipModuleUnload

    def __del__(self) -> None:
        self._unload(self.native)

    def kernel(self, spec: KernelSpec) -> Any:
        """Return a kernel's handle. Raises `LaunchError` where there is none of the name."""
        if self.facts:
            check_entry(spec, self.facts)
        found = hip.hipModuleGetFunction(self.native, spec.entry.encode())
        return checked(found, "hipModuleGetFunction", f"kernel {launch_name(spec)}", LaunchError)


def load_program(program: Program, code: bytes, number: int) -> LoadedProgram:
    """Load a code object. Raises `KernelBuildError` where the runtime refuses it."""
    source = str(program.source)
    try:
        checked(hip.hipSetDevice(number), "hipSetDevice", f"loading {source}")
        native = checked(hip.hipModuleLoadData(code), "hipModuleLoadData", f"loading {source}")
    except DeviceError as exc:
        raise KernelBuildError(source, program.all_options, f"error: {exc}") from exc
    return LoadedProgram(native, code, {facts.name: facts for facts in kernels_of(code)})
