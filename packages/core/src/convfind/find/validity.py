"""Whether a record still holds: its config is legal, and its kernels are those of today."""

from __future__ import annotations

from convfind.errors import SolverError
from convfind.finddb import FindRecord, QuarantineRecord
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.runtime.session import Session
from convfind.solver import Solver, asking
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config, ConfigValue


def why_config_is_unused(
    record: FindRecord, solver: Solver, problem: Problem, session: Session
) -> Rejected | str | None:
    """Say why a record's config is none of the solver's; None where it may be used.

    Databases come from elsewhere, too, and another config may make kernels write anywhere.
    """
    if record.config is None:
        return None
    config = Config(record.config)
    try:
        fault = asking.config_fault(solver, problem, session.target, config, record.workspace)
    except SolverError as error:
        return Rejected(Reason.SOLVER_ERROR, error.detail)
    return None if fault is None else f"its config is not of the solver's search space: {fault}"


def has_other_kernels(
    record: FindRecord | QuarantineRecord,
    solver: Solver,
    problem: Problem,
    session: Session,
    workspace: int | None,
) -> bool:
    """Say whether a solver's kernel files are others than when it was recorded.

    A record without a hash, and a solver that fails when it is asked, count as unchanged.
    """
    if not record.source_hash:
        return False
    config = _config(record.config)
    try:
        recipe = asking.remembered_recipe(solver, problem, session.target, config, workspace)
    except SolverError:
        return False
    return recipe.source_hash != record.source_hash


def _config(values: dict[str, ConfigValue] | None) -> Config | None:
    return None if values is None else Config(values)
