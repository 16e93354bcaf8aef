"""The contract of a solver: which problems it takes, and the recipes that it builds."""

from __future__ import annotations

from convfind.solver.contract import Solver, TunableSolver, versioned_id
from convfind.solver.domain import Domain, ProblemDomain

__all__ = ["Domain", "ProblemDomain", "Solver", "TunableSolver", "versioned_id"]
