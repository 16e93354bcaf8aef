"""The gradient of the weights of 1x1 convolutions on CPUs, channels last: nothing is copied."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import (
    PRODUCT,
    Epilogue,
    Grid,
    Limit,
    even_parts,
    part_bytes,
    parts_of_result,
)
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.types import Direction
from convfind_solvers_igemm.cpu.geometry import geometry
from convfind_solvers_igemm.cpu.solver import VECTOR, CpuSolver
from convfind_solvers_igemm.cpu.weights import sum_of_parts, weights_index
from convfind_solvers_igemm.programs import CPU

#: Positions at a time: what of both operands stays in the level-1 cache.
_DEPTH = 48
#: Filters of the smallest tile.
_FILTERS = 4
#: Sums that stay in the level-2 cache.
_MOST_SUMS = 65536
_ITEMS_PER_CORE = 4


class ChannelsLastPointwiseBackwardWeights(CpuSolver):
    """w from x and y of 1x1 filters with stride 1, where the sums stay in the level-2 cache."""

    version = 1
    form = "pointwise"
    direction = Direction.BACKWARD_WEIGHTS
    channels_last = True
    domain = CpuSolver.domain.without(Trait.FILTER, Trait.STRIDE, Trait.PADDING, Trait.GROUPS)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take whole vectors of channels."""
        if not (answer := super().applicability(problem, target)):
            return answer
        filters, channels = problem.w_shape[:2]
        if channels % VECTOR or filters % _FILTERS:
            return Rejected(
                Reason.CHANNELS,
                f"multiples of {VECTOR}, of {_FILTERS} filters, not {channels} and {filters}",
            )
        if channels * filters > _MOST_SUMS:
            return Rejected(Reason.SIZE_LIMIT, f"{channels * filters} weights, over {_MOST_SUMS}")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products and memory."""
        workspace = _parts(problem, target, None)[0] * part_bytes(problem)
        return weights_index(problem, target, problem.flops, 0.0, workspace)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch that computes parts, and one that adds them up."""
        filters, channels = problem.w_shape[:2]
        parts, span = _parts(problem, target, limit)
        rows, vectors = PRODUCT.of(target)
        program = CPU.program(
            "cpu_bwd_weights_pointwise",
            MR=rows // _FILTERS * _FILTERS,
            VECTORS=vectors,
            DEPTH=_DEPTH,
        )
        positions = geometry(problem).positions
        compute = Grid(program, "igemm_cpu_bwd_weights_pointwise", parts)(
            *(Memory.X, Memory.Y, Memory.WORKSPACE),
            *(channels, filters, positions, span),
        )
        epilogue = Epilogue.of(problem)
        add_up = sum_of_parts(program, geometry(problem), target, parts, epilogue)
        workspace = parts * part_bytes(problem)
        return Recipe(self.solver_id, (compute, add_up), workspace=workspace)


def _parts(problem: ConvProblem, target: Target, limit: Limit) -> tuple[int, int]:
    """Return how many parts there are, and the positions of each."""
    most = 1 if target.compute_units == 1 else _ITEMS_PER_CORE * target.compute_units
    blocks = -(-geometry(problem).positions // _DEPTH)
    parts, length = even_parts(blocks, parts_of_result(problem, most, limit))
    return parts, length * _DEPTH
