"""The solvers of all other convolutions: columns, chunk by chunk, and products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from convfind.backend_kit.library_gemm.cost import lowering_seconds, product_seconds
from convfind.backend_kit.library_gemm.products import library_gemms
from convfind.backend_kit.library_gemm.solver import GemmSolver, sums_apart, weight_steps
from convfind.device.target import Target
from convfind.kit.gemm_lowering.columns import col2im, column_sums, im2col
from convfind.kit.gemm_lowering.plan import Plan, Split, plan
from convfind.kit.gemm_lowering.product import Chunk, Gemm, Shape, gemm_of
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.recipe import BufferArg, Memory, Recipe, Step
from convfind.types import DataType, Direction

_CHUNK_BYTES = 256 << 20
#: Each element of the columns is read or written three times.
_COLUMN_PASSES = 3


@dataclass(frozen=True, slots=True)
class _SumApart(Split):
    """One sum, in single precision, at the start of the workspace."""

    def bytes_of(self, weights_bytes: int) -> int:
        return weights_bytes


class Im2colSolver(GemmSolver):
    """Columns in the workspace, as many at a time as fit, and a product for each chunk of them."""

    variant = "im2col"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take windows: a 1x1 filter needs no columns."""
        if problem.is_pointwise:
            return Rejected(Reason.FILTER_SIZE, "a 1x1 filter needs no columns")
        return super().applicability(problem, target)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: Limit = None) -> int:
        """Bytes of the columns and of the sums of a narrow weight gradient."""
        return _plan(problem, limit).workspace

    def _seconds(self, problem: ConvProblem, target: Target) -> float:
        cut, shape = _plan(problem, None), _shape(problem)
        chunks = tuple(cut.chunks)
        columns = BufferArg(Memory.WORKSPACE, cut.columns)
        is_sum = self.direction is Direction.BACKWARD_WEIGHTS
        products = sum(
            product_seconds(gemm_of(problem, chunk, columns), problem, target, is_sum=is_sum)
            for chunk in chunks
        )
        columns_bytes = shape.images * shape.positions * shape.position_bytes
        moved = problem.traffic + _COLUMN_PASSES * columns_bytes
        return products + lowering_seconds(moved, len(chunks), target)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """A launch and a product for each chunk, more for groups and for the weight gradient."""
        cut = _plan(problem, limit)
        steps = tuple(self._steps(problem, target, cut))
        return Recipe(self.solver_id, steps, workspace=cut.workspace)

    def _steps(self, problem: ConvProblem, target: Target, cut: Plan) -> Iterator[Step]:
        def product(chunk: Chunk) -> Gemm:
            return gemm_of(problem, chunk, BufferArg(Memory.WORKSPACE, cut.columns))

        if self.direction is Direction.FORWARD:
            integer = problem.dtype is DataType.INT8
            result = DataType.INT32 if integer else problem.dtype
            for chunk in cut.chunks:
                yield im2col(problem, target, cut, chunk)
                yield from library_gemms(product(chunk).completing(problem), problem, result)
        elif self.direction is Direction.BACKWARD_DATA:
            for chunk, gathering in col2im(problem, target, cut):
                yield from library_gemms(product(chunk), problem, column_sums(problem.dtype))
                yield gathering
        else:
            products = (
                ((im2col(problem, target, cut, chunk),), product(chunk)) for chunk in cut.chunks
            )
            yield from weight_steps(problem, target, products)


def _shape(problem: ConvProblem) -> Shape:
    """The shape, with columns of the type of x; those of the data gradient are not yet rounded."""
    is_sum = problem.direction is Direction.BACKWARD_DATA
    dtype = column_sums(problem.dtype) if is_sum else problem.dtype
    return replace(Shape.of(problem), column_bytes=dtype.numpy.itemsize)


def _plan(problem: ConvProblem, limit: Limit) -> Plan:
    split = _SumApart() if sums_apart(problem) else Split()
    return plan(_shape(problem), _CHUNK_BYTES, limit, (split,))
