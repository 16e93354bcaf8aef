"""1x1 convolutions at a few positions on CPUs, channels last: each weight is read once."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, cpu_index, even_parts
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.types import Direction
from convfind_solvers_igemm.cpu.geometry import geometry
from convfind_solvers_igemm.cpu.solver import VECTOR, CpuSolver
from convfind_solvers_igemm.programs import CPU

#: Positions at which reading the weights still takes longer than products.
_MOST_POSITIONS = 8
#: Weights that are worth a work-item, and work-items of a core.
_LEAST_WEIGHTS, _ITEMS_PER_CORE = 2**14, 4
#: Operations at the peak that a float takes from memory.
_MOVED = 55.0


class ChannelsLastFewForward(CpuSolver):
    """y from x and w, channels last, where 1x1 filters have a few positions only.

    Linear layers of a few rows are such, and what squeezes and excites channels.
    """

    version = 1
    form = "few"
    direction = Direction.FORWARD
    channels_last = True
    domain = CpuSolver.domain.without(Trait.FILTER, Trait.STRIDE, Trait.PADDING, Trait.GROUPS)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take a few positions."""
        if not (answer := super().applicability(problem, target)):
            return answer
        positions = geometry(problem).positions
        if positions > _MOST_POSITIONS:
            detail = f"{positions} positions, over {_MOST_POSITIONS}"
            return Rejected(Reason.SIZE_LIMIT, detail)
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Memory, beside which products take no time."""
        return cpu_index(problem, target, _MOVED * problem.traffic / 4)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch, no workspace."""
        filters, channels = problem.w_shape[:2]
        epilogue = Epilogue.of(problem)
        program = CPU.program("cpu_few", epilogue.defines)
        most = min(_ITEMS_PER_CORE * target.compute_units, -(-filters * channels // _LEAST_WEIGHTS))
        runs, vectors = even_parts(-(-filters // VECTOR), most)
        compute = Grid(program, "igemm_cpu_few", runs)(
            *(Memory.X, Memory.W, Memory.Y),
            *epilogue.arguments,
            *(geometry(problem).positions, channels, filters, vectors * VECTOR),
        )
        return Recipe(self.solver_id, (compute,))
