"""`MatMulSolver`: products of matrices in tiles of registers."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.recipe import BufferArg, Launch, Memory, Step, i32, i64, moved_to
from convfind_operators.copy_solver import CopySolver
from convfind_operators.launching import (
    Division,
    arguments_of,
    has_vectors,
    kernel,
    number,
    row_sizes,
    step_class,
)
from convfind_operators.matmul import MatMulProblem
from convfind_operators.rearrangement import CopyProblem
from convfind_operators.solver import OperatorSolver, Planned, walkable
from convfind_operators.walk import Walk

#: Rows of a block on CPUs, the side of a tile on GPUs, and what a work-group is there.
_ROWS, _TILE, _GROUP, _MOST_GROUPS = 6, 64, 256, 2**20


class MatMulSolver(OperatorSolver):
    """One launch for all matrices of a batch; on CPUs a transposed b is copied before."""

    family = MatMulProblem

    def countable(self, problem: MatMulProblem, target: Target) -> Applicability:
        """Take batches and matrices that kernels can count."""
        if target.max_work_group < _GROUP and not has_vectors(target):
            return Rejected(Reason.WORK_GROUP, f"needs {_GROUP} work-items")
        return walkable(_batch(problem))

    def planned(self, problem: MatMulProblem, target: Target, limit: int | None) -> Planned:
        """Return the launch, and on CPUs what lets its vectors be neighbours in b."""
        b, copier = problem.operand("b"), CopySolver(CopyProblem)
        is_apart = problem.n > 1 and step_class(_batch(problem).views[1]) == 2
        # A block of rows reads a transposed b more quickly than a copy is made; two do not.
        if not has_vectors(target) or not is_apart or problem.m <= _ROWS:
            return super().planned(problem, target, limit)
        copy = CopyProblem(x=b.shape, dtype=b.dtype, strides={"x": b.strides})
        nbytes = copy.operand("y").nbytes
        if (limit is not None and nbytes > limit) or not copier.takes(copy, target):
            return super().planned(problem, target, limit)
        strides = {one.name: one.strides for one in problem.operands}
        neat = replace(problem, strides={**strides, "b": copy.operand("y").strides})
        workspace = BufferArg(Memory.WORKSPACE)
        steps = (
            *moved_to(copier.steps(copy, target), {"x": BufferArg("b"), "y": workspace}),
            *moved_to(self.steps(neat, target), {"b": workspace}),
        )
        return steps, nbytes

    def steps(self, problem: MatMulProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        batch, vectors = _batch(problem), has_vectors(target)
        m, k, n = problem.m, problem.k, problem.n
        a_row, b_row, y_row = (
            problem.walk.views[0].steps[-3],
            problem.walk.views[1].steps[-2],
            problem.walk.views[2].steps[-3],
        )
        a, b, y = batch.views
        macros: dict[str, int | str] = {
            "DTYPE": problem.dtype.upper(),
            "CF_ARITHMETIC": problem.dtype.arithmetic.upper(),
            "OUTER": len(batch.sizes) - 1,
            **({} if vectors else {"A_IS": step_class(a)}),
            "B_IS": step_class(b),
            "Y_IS": step_class(y) or 2,
        }
        if vectors:
            every = batch.rows * -(-m // _ROWS)
            division = Division.of(every, 1, target, max(k, 1) * n)
            sizes: tuple[tuple[int, ...], tuple[int, ...]] = (division.global_size, (1, 1))
            per_item = division.rows
        else:
            every = batch.rows * -(-m // _TILE) * -(-n // _TILE)
            sizes, per_item = ((min(every, _MOST_GROUPS) * _GROUP,), (_GROUP,)), 1
        arguments = (
            *(argument for view in batch.views for argument in arguments_of(view)),
            *row_sizes(batch.sizes),
            *map(i64, (a_row, b_row, y_row)),
            *map(i32, (m, k, n)),
            i64(every),
            i64(per_item),
            number(problem.alpha, problem.dtype.arithmetic),
        )
        return (Launch(kernel("matmul", "operators_matmul", target, macros), arguments, *sizes),)


def _batch(problem: MatMulProblem) -> Walk:
    """Return the axes of the batch merged, then that of the columns: of a that of the sums."""
    walk, rank = problem.walk, len(problem.batch)
    outside = walk.along([axis for axis in range(rank) if walk.sizes[axis] != 1]).merged()
    columns = (walk.views[0].steps[-2], walk.views[1].steps[-1], walk.views[2].steps[-1])
    is_one = outside.elements == 1
    return Walk(
        (*(() if is_one else outside.sizes), problem.n),
        tuple(
            type(view)(view.name, view.dtype, view.start, (*(() if is_one else view.steps), column))
            for view, column in zip(outside.views, columns, strict=True)
        ),
    )
