"""`ElementwiseSolver`: functions of elements, in one launch along the memory of the result."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.solver.applicability import Applicability
from convfind.solver.recipe import Step
from convfind_operators.elementwise import Elementwise
from convfind_operators.solver import OperatorSolver, walkable


class ElementwiseSolver(OperatorSolver):
    """Reads and writes every element once, whatever the strides."""

    family = Elementwise

    def countable(self, problem: Elementwise, target: Target) -> Applicability:
        """Take what kernels can count."""
        return walkable(problem.walk)

    def steps(self, problem: Elementwise, target: Target) -> tuple[Step, ...]:
        """One launch."""
        return (problem.map.launch(problem.walk, target),)
