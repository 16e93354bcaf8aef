"""Modules in a device's memory, and the kernels in them."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver

from convfind.backend_kit.launching import launch_name
from convfind.errors import DeviceError, KernelBuildError, LaunchError
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind_backend_cuda.context import Context
from convfind_backend_cuda.errors import checked


class LoadedProgram:
    """A program that is ready to run; unloaded with the last reference."""

    __slots__ = ("_context", "_native", "_unload")

    def __init__(self, native: Any, context: Context) -> None:
        self._native = native
        self._context = context
        self._unload = driver.cuModuleUnload

    def __del__(self) -> None:
        with self._context:
            self._unload(self._native)

    def kernel(self, spec: KernelSpec) -> Any:
        """Return a kernel's handle, loaded now. Raises `LaunchError` if there is none of the name.

        CUDA loads kernels with their first use, which a capture does not allow.
        """
        doing = f"kernel {launch_name(spec)}"
        with self._context:
            found = driver.cuModuleGetFunction(self._native, spec.entry.encode())
            function = checked(found, "cuModuleGetFunction", doing, LaunchError)
            checked(driver.cuFuncLoad(function), "cuFuncLoad", doing, LaunchError)
        return function


def load_program(program: Program, code: bytes, context: Context) -> LoadedProgram:
    """Load a CUBIN. Raises `KernelBuildError` where the driver refuses it."""
    source = str(program.source)
    try:
        with context:
            loaded = driver.cuModuleLoadData(code)
        native = checked(loaded, "cuModuleLoadData", f"loading {source}")
    except DeviceError as exc:
        raise KernelBuildError(source, program.all_options, f"error: {exc}") from exc
    return LoadedProgram(native, context)
