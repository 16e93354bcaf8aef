"""The solvers of 1x1 convolutions: products of the tensors as they are."""

from __future__ import annotations

import math

from convfind.backend_kit.library_gemm.cost import product_seconds
from convfind.backend_kit.library_gemm.products import library_gemms
from convfind.backend_kit.library_gemm.solver import GemmSolver, sums_apart, weight_steps
from convfind.device.target import Target
from convfind.kit.gemm_lowering.product import whole_gemm
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem
from convfind.problem.traits import Trait
from convfind.solver.recipe import Recipe, Step
from convfind.types import DataType, Direction


class PointwiseSolver(GemmSolver):
    """One strided-batched product for forward and the data gradient."""

    variant = "pointwise"
    fused = (Direction.FORWARD, Direction.BACKWARD_DATA)
    traits = GemmSolver.traits - {Trait.FILTER, Trait.STRIDE, Trait.PADDING}

    def workspace_size(self, problem: ConvProblem, target: Target, limit: Limit = None) -> int:
        """Bytes of the sums of a narrow weight gradient; none otherwise."""
        if not sums_apart(problem):
            return 0
        return 4 * math.prod(problem.w_shape)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One product, or those of the weight gradient's sum."""
        gemm = whole_gemm(problem)
        if self.direction is Direction.BACKWARD_WEIGHTS:
            steps: tuple[Step, ...] = tuple(weight_steps(problem, target, [((), gemm)]))
        else:
            integer = problem.dtype is DataType.INT8
            result = DataType.INT32 if integer else problem.dtype
            steps = tuple(library_gemms(gemm.completing(problem), problem, result))
        workspace = self.workspace_size(problem, target)
        return Recipe(self.solver_id, steps, workspace=workspace)

    def _seconds(self, problem: ConvProblem, target: Target) -> float:
        is_sum = self.direction is Direction.BACKWARD_WEIGHTS
        return product_seconds(whole_gemm(problem), problem, target, is_sum=is_sum)
