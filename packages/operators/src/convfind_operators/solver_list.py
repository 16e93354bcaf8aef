"""The solvers of operators: for each kind those of its family, best first."""

from __future__ import annotations

from functools import cache
from typing import Any

from convfind.device.target import Target
from convfind.errors import NoSolverError
from convfind.reasons import Reason
from convfind.solver.applicability import Rejected
from convfind_operators.attention_solver import AttentionSolver
from convfind_operators.copy_solver import CopySolver
from convfind_operators.cpu_attention_solver import CpuAttentionSolver
from convfind_operators.elementwise_solver import ElementwiseSolver
from convfind_operators.epilogue_gradient_solver import EpilogueGradientSolver
from convfind_operators.gather_solver import GatherSolver
from convfind_operators.library_matmul_solver import LibraryMatMulSolver
from convfind_operators.line_solver import LineSolver
from convfind_operators.local_response_solver import LocalResponseNormSolver
from convfind_operators.matmul_solver import MatMulSolver
from convfind_operators.nvidia_attention_solver import (
    NvidiaAttentionSolver,
    WgmmaAttentionSolver,
)
from convfind_operators.pointwise_depthwise_solver import PointwiseDepthwiseSolver
from convfind_operators.pooling_solver import PoolingSolver
from convfind_operators.problem_list import problem_types
from convfind_operators.resize_solver import ResizeSolver
from convfind_operators.scan_solver import ScanSolver
from convfind_operators.scatter_solver import ScatterSolver
from convfind_operators.solver import OperatorSolver
from convfind_operators.top_k_solver import TopKSolver

_FAMILIES: tuple[type[OperatorSolver], ...] = (
    *(CopySolver, ElementwiseSolver, PoolingSolver, LineSolver, LocalResponseNormSolver),
    *(LibraryMatMulSolver, MatMulSolver, GatherSolver, ResizeSolver, ScanSolver),
    *(WgmmaAttentionSolver, NvidiaAttentionSolver, CpuAttentionSolver, AttentionSolver),
    *(PointwiseDepthwiseSolver, ScatterSolver, TopKSolver, EpilogueGradientSolver),
)


@cache
def solvers() -> tuple[OperatorSolver, ...]:
    """Return all solvers."""
    return tuple(
        solver(problem)
        for problem in problem_types()
        for solver in _FAMILIES
        if issubclass(problem, solver.family)
    )


def solver_of(problem: Any, target: Target) -> OperatorSolver:
    """Return the first solver that takes a problem. Raises `NoSolverError`."""
    rejected: dict[str, Rejected] = {}
    for solver in solvers():
        answer = solver.takes(problem, target)
        if answer:
            return solver
        assert isinstance(answer, Rejected)
        if answer.reason is not Reason.PROBLEM:
            rejected[solver.solver_id] = answer
    raise NoSolverError(problem.key, target.name, rejected)
