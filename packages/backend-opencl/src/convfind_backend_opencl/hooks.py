"""The hooks of this package. Imports no OpenCL: that waits for the first device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.plugins import hookimpl
from convfind.plugins.family import databases_hook
from convfind_backend_opencl.backend import OpenCLBackend

if TYPE_CHECKING:
    from convfind.plugins.registry import BackendRegistry, SolverRegistry


@hookimpl
def convfind_register_backends(register: BackendRegistry) -> None:
    """Register the ``opencl`` backend."""
    register.add(OpenCLBackend)


@hookimpl
def convfind_register_solvers(register: SolverRegistry) -> None:
    """Register the GEMM solvers in their order of preference."""
    from convfind_backend_opencl.gemm.solver_list import solvers

    register.extend(solvers())


#: Measurements of the GEMM solvers on devices, packed into the package.
convfind_system_databases = databases_hook("convfind_backend_opencl")
