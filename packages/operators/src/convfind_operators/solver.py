"""`OperatorSolver`: one way to compute the operators of a family; an instance for each kind."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver import ProblemDomain, Solver
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import Recipe, Step
from convfind.types import Algorithm
from convfind_operators.element_type import ElementType
from convfind_operators.operator import Operator
from convfind_operators.walk import MOST_AXES, Walk

#: Steps, and the bytes of their workspace.
Planned = tuple[tuple[Step, ...], int]
#: Kernels count rows and elements of a row in 32 bits.
_MOST_ROWS = 2**31 - 1


class OperatorSolver(Solver):
    """A solver of one kind of operator: ``operators-<kind>``."""

    #: The base of the problem types that the family takes.
    family: ClassVar[type[Operator]]
    algorithm = Algorithm.DIRECT
    is_dynamic = True

    def __init__(self, problem: type[Operator]) -> None:
        self.solver_id = f"operators-{problem.kind}"
        self.domain = ProblemDomain(
            problem=problem.kind, dtypes=tuple(ElementType), traits=frozenset({"gaps"})
        )

    def applicability(self, problem: Any, target: Target) -> Applicability:
        """Take what kernels can count, in types that the device has."""
        if not target.has("fp64") and any(
            operand.dtype is ElementType.FLOAT64 for operand in problem.operands
        ):
            return Rejected(Reason.FEATURE, "float64 needs fp64")
        return self.countable(problem, target)

    def countable(self, problem: Any, target: Target) -> Applicability:
        """Return whether kernels can count what a problem has."""
        return APPLICABLE

    def solution(
        self,
        problem: Any,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """Describe how to compute a problem; one whose results have no elements needs no step."""
        if not any(operand.elements for operand in map(problem.operand, problem.writes)):
            return Recipe(self.solver_id, (), config=config)
        steps, workspace = self.planned(problem, target, workspace_limit)
        return Recipe(self.solver_id, steps, workspace=workspace, config=config)

    def workspace_size(self, problem: Any, target: Target, limit: int | None = None) -> int:
        """Return the bytes of scratch memory that a recipe within a limit has."""
        return self.solution(problem, target, workspace_limit=limit).workspace

    def planned(self, problem: Any, target: Target, limit: int | None) -> Planned:
        """Return the steps for a problem with a result that has elements, and their workspace.

        Args:
            problem: the problem.
            target: the device.
            limit: bytes that the workspace may have; None: as many as it takes.
        """
        return self.steps(problem, target), 0

    @abstractmethod
    def steps(self, problem: Any, target: Target) -> tuple[Step, ...]:
        """Return the steps for a problem with a result that has elements."""


def walkable(*walks: Walk) -> Applicability:
    """Return whether kernels can count the axes and the rows of walks."""
    for walk in walks:
        if len(walk.sizes) > MOST_AXES:
            return Rejected(Reason.SIZE_LIMIT, f"{len(walk.sizes)} axes that do not merge")
        if max(walk.rows, walk.length) > _MOST_ROWS:
            return Rejected(Reason.SIZE_LIMIT, f"{walk.rows} rows of {walk.length} elements")
    return APPLICABLE
