"""`OperatorSolver`: one way to compute a family of operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.recipe import Recipe, Step
from convfind_operators.element_type import ElementType
from convfind_operators.operator import Operator
from convfind_operators.walk import MOST_AXES, Walk

#: Kernels count rows and elements of a row in 32 bits.
_MOST_ROWS = 2**31 - 1


class OperatorSolver(ABC):
    """One way to compute operators: stateless, without a device, as a convolution's solver."""

    #: ``operators-<variant>`` in kebab case; never changes.
    solver_id: ClassVar[str]
    version: ClassVar[int] = 1
    #: The problem types that it takes.
    problems: ClassVar[tuple[type[Operator], ...]]

    def takes(self, problem: Any, target: Target) -> Applicability:
        """Return whether the solver takes the problem on the target."""
        if not isinstance(problem, self.problems):
            return Rejected(Reason.TRAIT, f"{problem.kind} is another operator")
        if not target.has("fp64") and any(
            operand.dtype is ElementType.FLOAT64 for operand in problem.operands
        ):
            return Rejected(Reason.FEATURE, "float64 needs fp64")
        return self.applicability(problem, target)

    def applicability(self, problem: Any, target: Target) -> Applicability:
        """Return whether the solver takes a problem of its types: checks that depend on sizes."""
        return APPLICABLE

    def solution(self, problem: Any, target: Target) -> Recipe:
        """Describe how to compute a problem that the solver takes: kernels, steps, memory."""
        if not all(operand.elements for operand in map(problem.operand, problem.writes)):
            return Recipe(self.solver_id, ())
        return Recipe(self.solver_id, self.steps(problem, target))

    @abstractmethod
    def steps(self, problem: Any, target: Target) -> tuple[Step, ...]:
        """Return the steps for a problem whose results have elements."""


def walkable(*walks: Walk) -> Applicability:
    """Return whether kernels can count the axes and the rows of walks."""
    for walk in walks:
        if len(walk.sizes) > MOST_AXES:
            return Rejected(Reason.SIZE_LIMIT, f"{len(walk.sizes)} axes that do not merge")
        if max(walk.rows, walk.length) > _MOST_ROWS:
            return Rejected(Reason.SIZE_LIMIT, f"{walk.rows} rows of {walk.length} elements")
    return APPLICABLE
