"""`ScanSolver`: a work-item for each line, which it meets from one end to the other."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.solver.applicability import Applicability
from convfind.solver.recipe import Launch, Step, i32, i64
from convfind_operators.launching import arguments_of, kernel, row_sizes, spread
from convfind_operators.scan import Scan
from convfind_operators.solver import OperatorSolver, walkable


class ScanSolver(OperatorSolver):
    """One launch."""

    family = Scan

    def countable(self, problem: Scan, target: Target) -> Applicability:
        """Take what kernels can count."""
        return walkable(problem.lines.simplified())

    def steps(self, problem: Scan, target: Target) -> tuple[Step, ...]:
        """One launch."""
        lines = problem.lines.simplified()
        x, y = problem.operand("x"), problem.result
        sign = -1 if problem.is_backward else 1
        macros: dict[str, int | str] = {
            "OPERATION": problem.operation,
            "LAST": problem.is_late,
            "X_TYPE": problem.dtype.upper(),
            "CF_ARITHMETIC": problem.dtype.arithmetic.upper(),
            "OUTER": len(lines.sizes) - 1,
        }
        along = y.strides[problem.axis] if len(y.shape) == len(x.shape) else 0
        arguments = (
            *(argument for view in lines.views for argument in arguments_of(view)),
            *row_sizes(lines.sizes),
            i32(lines.length),
            i64(lines.elements),
            i32(problem.x[problem.axis]),
            i64(sign * x.strides[problem.axis]),
            i64(sign * along),
        )
        spec = kernel("scan", "operators_scan", target, macros)
        return (Launch(spec, arguments, *spread(lines.elements, target)),)
