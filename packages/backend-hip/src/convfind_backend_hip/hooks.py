"""The hooks of this package. Imports no HIP: that waits for the first device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.plugins import hookimpl
from convfind_backend_hip.backend import HipBackend

if TYPE_CHECKING:
    from convfind.plugins.registry import BackendRegistry, SolverRegistry


@hookimpl
def convfind_register_backends(register: BackendRegistry) -> None:
    """Register the ``hip`` backend."""
    register.add(HipBackend)


@hookimpl
def convfind_register_solvers(register: SolverRegistry) -> None:
    """Register the GEMM solvers in their order of preference."""
    from convfind.backend_kit.library_gemm.solvers import library_gemm_solvers

    register.extend(library_gemm_solvers("hip", features=["rocblas"]))
