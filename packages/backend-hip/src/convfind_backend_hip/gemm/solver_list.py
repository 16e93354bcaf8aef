"""The GEMM solvers, best first."""

from __future__ import annotations

from convfind.solver import Solver
from convfind_backend_hip.gemm.im2col import (
    Im2colBackwardData,
    Im2colBackwardWeights,
    Im2colForward,
)
from convfind_backend_hip.gemm.pointwise import (
    PointwiseBackwardData,
    PointwiseBackwardWeights,
    PointwiseForward,
)


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return [
        PointwiseForward(),
        PointwiseBackwardData(),
        PointwiseBackwardWeights(),
        Im2colForward(),
        Im2colBackwardData(),
        Im2colBackwardWeights(),
    ]
