"""The contract of a solver: which problems it takes, and the recipes that it builds."""

from __future__ import annotations

from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config, ConfigValue
from convfind.solver.contract import Solver, TunableSolver, versioned_id
from convfind.solver.domain import CPUS, GPUS, Domain, ProblemDomain

__all__ = [
    "APPLICABLE",
    "CPUS",
    "GPUS",
    "Applicability",
    "Config",
    "ConfigValue",
    "Domain",
    "ProblemDomain",
    "Reason",
    "Rejected",
    "Solver",
    "TunableSolver",
    "versioned_id",
]
