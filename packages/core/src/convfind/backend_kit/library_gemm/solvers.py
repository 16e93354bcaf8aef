"""`library_gemm_solvers`: the GEMM solvers of a backend whose runtime has a library."""

from __future__ import annotations

from collections.abc import Iterable

from convfind.backend_kit.library_gemm.im2col import Im2colSolver
from convfind.backend_kit.library_gemm.pointwise import PointwiseSolver
from convfind.backend_kit.library_gemm.solver import DTYPES, Library, LibraryEpilogue
from convfind.solver import Solver
from convfind.types import DataType, Direction


def library_gemm_solvers(
    backend: str,
    *,
    features: Iterable[str] = (),
    dtypes: tuple[DataType, ...] = DTYPES,
    int8_multiple: int = 1,
    epilogue: LibraryEpilogue | None = None,
) -> list[Solver]:
    """Return the solvers of all directions, in order of preference.

    Args:
        backend: the backend's name, with which the solvers' ids begin.
        features: features of targets that have the library.
        dtypes: types that the library multiplies; sums are float32, int32 for int8, and float64
            for float64.
        int8_multiple: bytes that rows and beginnings of matrices of int8 are multiples of; above
            1, sums must run along rows, too, as they do in tensors with channels last.
        epilogue: what the library can do to products before it stores them; None for nothing more
            than adding what lies in the result.
    """
    library = Library(backend, frozenset(features), dtypes, int8_multiple, epilogue)
    kinds = (PointwiseSolver, Im2colSolver)
    return [kind(library, direction) for kind in kinds for direction in Direction]
