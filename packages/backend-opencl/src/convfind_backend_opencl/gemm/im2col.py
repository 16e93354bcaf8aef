"""The solvers of all other convolutions: columns, chunk by chunk, and products."""

from __future__ import annotations

from collections.abc import Iterator

from convfind.device.target import DeviceKind, Target
from convfind.kit.gemm_lowering.columns import col2im, im2col
from convfind.kit.gemm_lowering.plan import Plan, Split, plan
from convfind.kit.gemm_lowering.product import Chunk, Gemm, Shape, gemm_of, whole_gemm
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe
from convfind.solver.search_space import Parameter, SearchSpace
from convfind.types import Direction
from convfind_backend_opencl.gemm.solver import GemmSolver, kernel_for
from convfind_backend_opencl.gemm.weights_sum import splits, sum_launches

_CHUNK = Parameter(
    "chunk_mib", (1, 2, 4, 8, 16, 32, 64, 128, 256), "columns that are made at a time"
)
#: On CPUs columns stay in the last-level cache; on GPUs fewer launches are worth more.
_CPU_CHUNK_MIB = 4
_GPU_CHUNK_MIB = 256


class Im2colSolver(GemmSolver):
    """Columns in the workspace, as many at a time as fit, and a product for each chunk of them."""

    variant = "im2col"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take windows: a 1x1 filter needs no columns."""
        if problem.is_pointwise:
            return Rejected(Reason.FILTER_SIZE, "a 1x1 filter needs no columns")
        return super().applicability(problem, target)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: Limit = None) -> int:
        """Bytes of the columns and of the partial sums of the weight gradient."""
        return self._plan(problem, target, self.default_config(problem, target), limit).workspace

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """The space of the GEMM kernel, and the size of a chunk."""
        space = super().search_space(problem, target)
        return SearchSpace(
            (*space.parameters, _CHUNK),
            space.constraints,
            space.local_memory,
            space.local_memory_limit,
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The default of the GEMM kernel, and chunks for the kind of device."""
        mib = _CPU_CHUNK_MIB if target.kind is DeviceKind.CPU else _GPU_CHUNK_MIB
        return super().default_config(problem, target).replace(chunk_mib=mib)

    def _column_bytes(self, problem: ConvProblem) -> int:
        shape = Shape.of(problem)
        return shape.images * shape.positions * shape.position_bytes

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """Two launches for each chunk, more for the weight gradient."""
        cut = self._plan(problem, target, config, limit)
        launches = tuple(self._launches(problem, target, config, cut))
        return Recipe(self.solver_id, launches, workspace=cut.workspace, config=config)

    def _plan(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Plan:
        ways: tuple[Split, ...] = (Split(),)
        if self.direction is Direction.BACKWARD_WEIGHTS:
            ways = splits(whole_gemm(problem), kernel_for(target), target, config)
        return plan(Shape.of(problem), config.integer("chunk_mib") << 20, limit, ways)

    def _launches(
        self, problem: ConvProblem, target: Target, config: Config, cut: Plan
    ) -> Iterator[Launch]:
        kernel = kernel_for(target)

        def product(chunk: Chunk) -> Gemm:
            return gemm_of(problem, chunk, BufferArg(Memory.WORKSPACE, cut.columns))

        if self.direction is Direction.FORWARD:
            for chunk in cut.chunks:
                yield im2col(problem, target, cut, chunk)
                yield kernel.launch(product(chunk).completing(problem), target, config)
        elif self.direction is Direction.BACKWARD_DATA:
            for chunk, gathering in col2im(problem, target, cut):
                yield kernel.launch(product(chunk), target, config)
                yield gathering
        else:
            products = (
                (product(chunk), (im2col(problem, target, cut, chunk),)) for chunk in cut.chunks
            )
            yield from sum_launches(products, cut.split, kernel, target, config, problem.beta)
