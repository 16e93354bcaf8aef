"""The entry point: what the package registers with convfind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.plugins import hookimpl
from convfind_example_backend.backend import NumpyBackend

if TYPE_CHECKING:
    from convfind.plugins.registry import BackendRegistry, SolverRegistry


@hookimpl
def convfind_register_backends(register: BackendRegistry) -> None:
    """Register the ``numpy`` backend."""
    register.add(NumpyBackend)


@hookimpl
def convfind_register_solvers(register: SolverRegistry) -> None:
    """Register the GEMM solvers: NumPy is a library of matrix products."""
    from convfind.backend_kit.library_gemm.solvers import library_gemm_solvers
    from convfind.types import DataType

    register.extend(library_gemm_solvers("numpy", dtypes=(DataType.FLOAT32,)))
