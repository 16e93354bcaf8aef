"""The gradient of the weights on CPUs along the rows of y: what is read of x is copied once."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.kit.blocks import PRODUCT, Epilogue, Grid, Limit, fill
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.types import Direction
from convfind_solvers_igemm.blocking import SplitCut, split_cut
from convfind_solvers_igemm.cpu.geometry import CpuGeometry, geometry
from convfind_solvers_igemm.cpu.solver import VECTOR, CpuSolver
from convfind_solvers_igemm.cpu.weights import DEPTH, weights_index, weights_product
from convfind_solvers_igemm.programs import CPU

#: The cost of a float that is copied into a strip, in operations, and of one of a line.
_STRIP_COST, _LINE_COST = 10, 30
#: A window of one tap has nothing to share.
_ONE_TAP_SHARE = 0.9
_MOST_TAPS = 64
_STRIP_FLOATS = 65536


class ChannelsFirstRowsBackwardWeights(CpuSolver):
    """w from x and y, channels first, for windows that the strips have room for."""

    form = "rows"
    direction = Direction.BACKWARD_WEIGHTS
    channels_last = False

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what the other solvers take, if what a row reads fits into the strips."""
        if not (answer := super().applicability(problem, target)):
            return answer
        taps = math.prod(problem.filter)
        if taps > _MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"at most {_MOST_TAPS} taps, not {taps}")
        floats = _strip_floats(problem, PRODUCT.of(target)[1] * VECTOR)
        if floats > _STRIP_FLOATS:
            return Rejected(Reason.DILATION, f"a row reads {floats} floats, over {_STRIP_FLOATS}")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products of whole tiles, what is copied for them, and memory."""
        shape = geometry(problem)
        operations = problem.flops / fill(shape.filters, 4) / fill(shape.channels, VECTOR)
        if shape.taps == 1:
            operations /= _ONE_TAP_SHARE
        copied = _STRIP_COST * shape.groups * shape.positions * shape.reduction
        copied += _LINE_COST * (problem.elements("x") + problem.elements("y"))
        workspace = self._cut(shape, target, None).parts * _part_bytes(shape, target)
        return weights_index(problem, target, operations, copied, workspace)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch that computes, and, where positions are split, one that adds up."""
        shape = geometry(problem)
        cut = self._cut(shape, target, limit)
        rows, vectors = PRODUCT.of(target)
        program = CPU.program("cpu_bwd_weights_rows", MR=rows, VECTORS=vectors, DEPTH=DEPTH)
        epilogue = Epilogue.of(problem)
        filters, channels = cut.cut.filters, cut.cut.positions
        pieces = (-(-shape.filters // filters), -(-shape.channels // channels))
        compute = Grid(program, "igemm_cpu_bwd_weights_rows", (*pieces, shape.groups * cut.parts))(
            *(Memory.X, Memory.Y, Memory.W, Memory.WORKSPACE),
            *(*shape.arguments, *epilogue.arguments),
            *(filters, channels, cut.span),
        )
        share = -(-shape.filters // (4 * target.compute_units))
        tiles = (-(-shape.filters // share), -(-shape.channels // (vectors * VECTOR)))
        adding = Grid(program, "igemm_cpu_sum_tiles", (*tiles, shape.groups))(
            *(Memory.WORKSPACE, Memory.W),
            *(shape.groups, shape.channels, shape.filters, shape.taps, cut.parts),
            *(*epilogue.arguments, share),
        )
        steps = (compute, adding) if cut.parts > 1 else (compute,)
        workspace = cut.parts * _part_bytes(shape, target)
        return Recipe(self.solver_id, steps, workspace=workspace)

    def _cut(self, shape: CpuGeometry, target: Target, limit: Limit) -> SplitCut:
        """Cut filters, channels and rows of y, or pieces of rows, into work-items."""
        product = weights_product(shape, shape.channels, target)
        length = min(shape.out[2], DEPTH)
        lines = shape.positions // shape.out[2] * -(-shape.out[2] // length)
        most = None if limit is None else limit // _part_bytes(shape, target)
        return split_cut(product, lines, max(1, DEPTH // length), target.compute_units, most)


def _part_bytes(shape: CpuGeometry, target: Target) -> int:
    """The sums of whole tiles."""
    rows, vectors = PRODUCT.of(target)
    filters = -(-shape.filters // rows) * rows
    width = vectors * VECTOR
    return 4 * shape.groups * shape.taps * filters * -(-shape.channels // width) * width


def _strip_floats(problem: ConvProblem, width: int) -> int:
    """Floats of the lines of a row, at most: one line for each remainder of the stride."""
    *outer, taps = problem.filter
    length = min(problem.y_shape[-1], DEPTH)
    stride = problem.stride[-1] if length > 1 else 1
    classes = min(taps, stride)
    slots = classes * (length + (taps - 1) * problem.dilation[-1] // stride)
    return math.prod(outer) * slots * width
