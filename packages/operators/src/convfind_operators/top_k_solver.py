"""`TopKSolver`: one search after the other along a line, each for what comes next."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.solver.applicability import Applicability
from convfind.solver.recipe import Launch, Step, i32, i64
from convfind_operators.launching import arguments_of, kernel, row_sizes, spread
from convfind_operators.solver import OperatorSolver, walkable
from convfind_operators.top_k import TopKProblem


class TopKSolver(OperatorSolver):
    """One launch; a work-item has a line."""

    family = TopKProblem

    def countable(self, problem: TopKProblem, target: Target) -> Applicability:
        """Take what kernels can count."""
        return walkable(problem.lines)

    def steps(self, problem: TopKProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        lines = problem.lines
        macros: dict[str, int | str] = {
            "DTYPE": problem.dtype.upper(),
            "CF_ARITHMETIC": problem.dtype.arithmetic.upper(),
            "LARGEST": problem.largest,
            "OUTER": len(lines.sizes) - 1,
        }
        arguments = (
            *(argument for view in lines.views for argument in arguments_of(view)),
            *row_sizes(lines.sizes),
            i32(lines.length),
            i64(lines.elements),
            i32(problem.x[problem.axis]),
            i32(problem.count),
            *(i64(operand.strides[problem.axis]) for operand in problem.operands),
        )
        spec = kernel("top_k", "operators_top_k", target, macros)
        return (Launch(spec, arguments, *spread(lines.elements, target)),)
