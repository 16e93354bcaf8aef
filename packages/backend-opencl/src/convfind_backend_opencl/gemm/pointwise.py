"""The solvers of 1x1 convolutions: products of the tensors as they are."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.gemm_lowering.plan import Split
from convfind.kit.gemm_lowering.product import Shape, whole_gemm
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem
from convfind.problem.traits import Trait
from convfind.solver.config import Config
from convfind.solver.recipe import Recipe
from convfind.types import Direction
from convfind_backend_opencl.gemm.solver import GemmSolver, kernel_for
from convfind_backend_opencl.gemm.weights_sum import splits, sum_launches


class PointwiseSolver(GemmSolver):
    """One launch for forward and the data gradient: x and its columns are the same."""

    variant = "pointwise"
    completed = (Direction.FORWARD, Direction.BACKWARD_DATA)
    domain = GemmSolver.domain.without(Trait.FILTER, Trait.STRIDE, Trait.PADDING)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: Limit = None) -> int:
        """Bytes of the partial sums of the weight gradient; none for the other directions."""
        if self.direction is not Direction.BACKWARD_WEIGHTS:
            return 0
        config = self.default_config(problem, target)
        return self._partial_bytes(problem, self._split(problem, target, config, limit))

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One product, or those of the weight gradient's sum."""
        kernel, gemm = kernel_for(target), whole_gemm(problem)
        split = self._split(problem, target, config, limit)
        if self.direction is Direction.BACKWARD_WEIGHTS:
            products = [(gemm, ())]
            launches = sum_launches(products, split, kernel, target, config, problem.beta)
        else:
            launches = iter([kernel.launch(gemm.completing(problem), target, config)])
        workspace = self._partial_bytes(problem, split)
        return Recipe(self.solver_id, tuple(launches), workspace=workspace, config=config)

    def _split(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Split:
        """The best way to sum that the limit allows."""
        if self.direction is not Direction.BACKWARD_WEIGHTS:
            return Split()
        best, smallest = splits(whole_gemm(problem), kernel_for(target), target, config)
        fits = limit is None or self._partial_bytes(problem, best) <= limit
        return best if fits else smallest

    @staticmethod
    def _partial_bytes(problem: ConvProblem, split: Split) -> int:
        return split.bytes_of(Shape.of(problem).weights_bytes)
