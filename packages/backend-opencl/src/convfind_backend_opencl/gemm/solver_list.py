"""The GEMM solvers, best first."""

from __future__ import annotations

from convfind.solver import Solver
from convfind.types import Direction
from convfind_backend_opencl.gemm.im2col import Im2colSolver
from convfind_backend_opencl.gemm.pointwise import PointwiseSolver


def solvers() -> list[Solver]:
    """Return the solvers of all directions, in order of preference."""
    kinds = (PointwiseSolver, Im2colSolver)
    return [kind(direction) for kind in kinds for direction in Direction]
