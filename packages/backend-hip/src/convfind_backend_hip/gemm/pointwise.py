"""The solvers of 1x1 convolutions: products of the tensors as they are."""

from __future__ import annotations

import math
from dataclasses import replace

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.problem.traits import Trait
from convfind.solver.config import Config
from convfind.solver.recipe import Recipe, Step
from convfind.types import DataType, Direction
from convfind_backend_hip.gemm.products import library_gemms
from convfind_backend_hip.gemm.solver import GemmSolver, sums_apart, weight_steps, whole_gemm


class PointwiseSolver(GemmSolver):
    """One strided-batched product for forward and the data gradient."""

    domain = GemmSolver.domain.without(Trait.FILTER, Trait.STRIDE, Trait.PADDING)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the sums of a narrow weight gradient; none otherwise."""
        if not sums_apart(problem):
            return 0
        return 4 * math.prod(problem.w_shape)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One product, or those of the weight gradient's sum."""
        gemm = whole_gemm(problem)
        if self.direction is Direction.BACKWARD_WEIGHTS:
            steps: tuple[Step, ...] = tuple(weight_steps(problem, target, [((), gemm)]))
        else:
            integer = problem.dtype is DataType.INT8
            result = DataType.INT32 if integer else problem.dtype
            steps = tuple(library_gemms(replace(gemm, beta=problem.beta), problem, result))
        workspace = self.workspace_size(problem, target)
        return Recipe(self.solver_id, steps, workspace=workspace)


class PointwiseForward(PointwiseSolver):
    """y from x and w."""

    solver_id = "hip-gemm-pointwise-fwd"
    direction = Direction.FORWARD


class PointwiseBackwardData(PointwiseSolver):
    """x from y and w."""

    solver_id = "hip-gemm-pointwise-bwd-data"
    direction = Direction.BACKWARD_DATA


class PointwiseBackwardWeights(PointwiseSolver):
    """w from x and y."""

    solver_id = "hip-gemm-pointwise-bwd-weights"
    direction = Direction.BACKWARD_WEIGHTS
