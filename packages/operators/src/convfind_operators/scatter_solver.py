"""`ScatterSolver`: a copy of x, and updates of it, a work-item for each line."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.solver.applicability import Applicability
from convfind.solver.recipe import Launch, Step, i32, i64
from convfind_operators.element_map import copy_of
from convfind_operators.element_type import ElementType
from convfind_operators.launching import arguments_of, kernel, row_sizes, spread
from convfind_operators.scatter import Combine, ScatterElementsProblem
from convfind_operators.solver import OperatorSolver, walkable


class ScatterSolver(OperatorSolver):
    """Two launches."""

    family = ScatterElementsProblem

    def countable(self, problem: ScatterElementsProblem, target: Target) -> Applicability:
        """Take what kernels can count."""
        return walkable(problem.copy, problem.lines)

    def steps(self, problem: ScatterElementsProblem, target: Target) -> tuple[Step, ...]:
        """Copy, then update."""
        copy, lines = problem.copy, problem.lines
        launch = copy_of(*copy.views).launch(copy, target)
        if not problem.operand("indices").elements:
            return (launch,)
        how = "SECOND" if problem.combine is Combine.REPLACE else problem.combine.upper()
        macros: dict[str, int | str] = {
            "COMBINE": how,
            "DTYPE": problem.dtype.upper(),
            "CF_ARITHMETIC": problem.dtype.arithmetic.upper(),
            "INDEX": "CF_LONG" if problem.index_dtype is ElementType.INT64 else "int",
            "OUTER": len(lines.sizes) - 1,
        }
        along = (problem.operand(name).strides[problem.axis] for name in _NAMES)
        arguments = (
            *(argument for view in lines.views for argument in arguments_of(view)),
            *row_sizes(lines.sizes),
            i32(lines.length),
            i64(lines.elements),
            i32(problem.indices[problem.axis]),
            i64(problem.x[problem.axis]),
            *map(i64, along),
        )
        spec = kernel("scatter", "operators_scatter", target, macros)
        return launch, Launch(spec, arguments, *spread(lines.elements, target))


_NAMES = ("indices", "updates", "y")
