"""The hooks of this package. Imports no CUDA: that waits for the first device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.plugins import hookimpl
from convfind.plugins.family import databases_hook
from convfind_backend_cuda.backend import CudaBackend

if TYPE_CHECKING:
    from convfind.plugins.registry import BackendRegistry, SolverRegistry


@hookimpl
def convfind_register_backends(register: BackendRegistry) -> None:
    """Register the ``cuda`` backend."""
    register.add(CudaBackend)


@hookimpl
def convfind_register_solvers(register: SolverRegistry) -> None:
    """Register the GEMM solvers in their order of preference."""
    from convfind.backend_kit.library_gemm.solver import DTYPES
    from convfind.backend_kit.library_gemm.solvers import library_gemm_solvers
    from convfind.types import DataType
    from convfind_backend_cuda.cublaslt import EPILOGUE

    register.extend(
        library_gemm_solvers(
            "cuda",
            features=["cublas"],
            dtypes=(*DTYPES, DataType.FLOAT64),
            int8_multiple=4,
            epilogue=EPILOGUE,
        )
    )


#: Measurements of the GEMM solvers on devices, packed into the package.
convfind_system_databases = databases_hook("convfind_backend_cuda")
