"""`GatherSolver`: elements chosen by number, one after the other."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.solver.applicability import Applicability
from convfind.solver.recipe import Launch, Step, i32, i64
from convfind_operators.element_type import ElementType
from convfind_operators.gather import Gathering
from convfind_operators.launching import arguments_of, kernel, row_sizes, spread
from convfind_operators.solver import OperatorSolver, walkable


class GatherSolver(OperatorSolver):
    """One launch; an element of y is a copy of one of x."""

    family = Gathering

    def countable(self, problem: Gathering, target: Target) -> Applicability:
        """Take what kernels can count."""
        return walkable(problem.walk.simplified())

    def steps(self, problem: Gathering, target: Target) -> tuple[Step, ...]:
        """One launch."""
        walk = problem.walk.simplified()
        macros: dict[str, int | str] = {
            "BYTES": problem.dtype.size,
            "INDEX": "CF_LONG" if problem.index_dtype is ElementType.INT64 else "int",
            "OUTER": len(walk.sizes) - 1,
        }
        arguments = (
            *(argument for view in walk.views for argument in arguments_of(view)),
            *row_sizes(walk.sizes),
            i32(walk.length),
            i64(walk.elements),
            i64(problem.x[problem.axis]),
            i64(problem.operand("x").strides[problem.axis]),
        )
        spec = kernel("gather", "operators_gather", target, macros)
        return (Launch(spec, arguments, *spread(walk.elements, target)),)
