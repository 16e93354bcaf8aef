"""The solvers of the family, best first, last resorts at the end."""

from __future__ import annotations

from convfind.solver import Solver
from convfind_solvers_direct.naive import NaiveBackwardData, NaiveBackwardWeights, NaiveForward


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return [NaiveForward(), NaiveBackwardData(), NaiveBackwardWeights()]
