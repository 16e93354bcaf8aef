"""Implicit GEMM on CPUs for the gradient of the weights: a sum over all positions of y."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import NO_EPILOGUE, PRODUCT, Epilogue, Grid, Limit, cpu_index, fill
from convfind.problem import ConvProblem
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch, Memory, Recipe
from convfind.types import Direction
from convfind_solvers_igemm.blocking import Product, SplitCut, split_cut
from convfind_solvers_igemm.cpu.geometry import CpuGeometry, geometry
from convfind_solvers_igemm.cpu.solver import CACHED_FLOATS, VECTOR, CpuSolver
from convfind_solvers_igemm.programs import CPU

#: Positions that are summed at a time.
DEPTH = 256
_BEST_SHARE = 0.8
#: The cost of floats, in operations: of x and y, of sums, and gathered where
#: channels are first and last.
_SOURCE_COST, _SUM_COST = 30, 36
_FIRST_GATHER_COST, _LAST_GATHER_COST = 75, 10


class CpuBackwardWeights(CpuSolver):
    """w from x and y. Splits of the sum are added up in a fixed order."""

    direction = Direction.BACKWARD_WEIGHTS

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products of whole tiles, what is gathered for them, and memory."""
        shape = geometry(problem)
        operations = problem.flops / fill(shape.filters, 4) / fill(shape.reduction, VECTOR)
        gathered = shape.groups * shape.positions * shape.reduction
        gathered *= _LAST_GATHER_COST if self.channels_last else _FIRST_GATHER_COST
        workspace = self._plan(shape, target, None)[1]
        return weights_index(problem, target, operations, gathered, workspace)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch that computes, and, where sums go through workspace, one that adds up."""
        shape = geometry(problem)
        split, workspace = self._plan(shape, target, limit)
        rows, vectors = PRODUCT.of(target)
        program = CPU.program(
            "cpu_bwd_weights",
            CHANNELS_LAST=self.channels_last,
            MR=rows,
            VECTORS=vectors,
            DEPTH=DEPTH,
        )
        pieces = split.cut
        epilogue = Epilogue.of(problem)
        groups = (
            -(-shape.filters // pieces.filters),
            -(-shape.reduction // pieces.positions),
            shape.groups * split.parts,
        )
        compute = Grid(program, "igemm_cpu_bwd_weights", groups)(
            *(Memory.X, Memory.Y, Memory.WORKSPACE if workspace else Memory.W),
            *shape.arguments,
            *(NO_EPILOGUE if workspace else epilogue).arguments,
            *(pieces.filters, pieces.positions, split.span),
        )
        adding = sum_of_parts(program, shape, target, split.parts, epilogue)
        steps = (compute, adding) if workspace else (compute,)
        return Recipe(self.solver_id, steps, workspace=workspace)

    def _plan(self, shape: CpuGeometry, target: Target, limit: Limit) -> tuple[SplitCut, int]:
        """Return how the sums are cut, and the bytes of workspace; 0: they go straight to w."""
        product = weights_product(shape, shape.reduction, target)
        part = 4 * shape.groups * shape.filters * shape.reduction
        most = None if limit is None else limit // part
        pieces = split_cut(product, shape.positions, DEPTH, target.compute_units, most)
        reorders = shape.taps > 1 and shape.channels > 1 and not self.channels_last
        return pieces, pieces.parts * part if reorders or pieces.parts > 1 else 0


def weights_product(shape: CpuGeometry, columns: int, target: Target) -> Product:
    """Return the product to cut, of all filters and so many columns of the weights."""
    rows, vectors = PRODUCT.of(target)
    most = CACHED_FLOATS // DEPTH // rows * rows
    return Product(columns, shape.filters, shape.groups, vectors * VECTOR, rows, most)


def weights_index(
    problem: ConvProblem, target: Target, products: float, gathered: float, workspace: int
) -> float:
    """Return the index of so many products and so much gathering, both in operations."""
    operations = products / _BEST_SHARE + gathered
    operations += _SOURCE_COST * (problem.elements("x") + problem.elements("y"))
    operations += _SUM_COST * (problem.elements("w") + workspace // 4)
    return cpu_index(problem, target, operations, launches=2 if workspace else 1)


def sum_of_parts(
    program: Program, shape: CpuGeometry, target: Target, parts: int, epilogue: Epilogue
) -> Launch:
    """Return the launch that adds up parts in workspace, with the epilogue of the weights."""
    filters = shape.groups * shape.filters
    share = -(-filters // (4 * target.compute_units))
    return Grid(program, "igemm_cpu_sum", -(-filters // share))(
        *(Memory.WORKSPACE, Memory.W),
        *(filters, shape.channels, shape.taps, parts),
        *epilogue.arguments,
        share,
    )
