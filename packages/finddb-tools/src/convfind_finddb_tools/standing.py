"""Why a record is used or not on a device."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from convfind.find.recall import recall, why_unused
from convfind.find.screening import quarantine_in_force
from convfind.find.solution import Solution
from convfind.finddb.record import FindRecord
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.runtime.session import Session
from convfind.solver import asking, versioned_id
from convfind.solver.applicability import Rejected
from convfind_finddb_tools.joining import record_identity


class Use(StrEnum):
    """How a find uses a record."""

    RETURNED = "returned"
    OVER_LIMIT = "over the limit"  # listed behind the others, and never chosen
    HIDDEN = "hidden"  # by a record of the same solver in a layer above
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class Standing:
    """A record in a layer, and how a find uses it."""

    layer: Path
    record: FindRecord
    use: Use
    reason: str
    stale: bool


def standings(problem: ConvProblem, session: Session, policy: Policy) -> list[Standing]:
    """Judge every record of a plain problem in every layer, topmost layer first."""
    quarantined = quarantine_in_force(problem, session)
    solutions = {
        solution.solver: solution for solution in recall(problem, session, policy).solutions
    }
    seen: dict[object, Path] = {}
    found: list[Standing] = []
    for path, entry in session.database.layers(session.target, problem):
        if path is None or entry is None:
            continue
        above = dict(seen)
        for record in entry.records:
            identity = record_identity(record)
            seen.setdefault(identity, path)
            if not policy.use_db:
                use, reason = Use.UNUSED, "this mode does not look into the database"
            elif identity in above:
                use, reason = Use.HIDDEN, f"the record in {above[identity]} lies above it"
            else:
                why = why_unused(record, problem, session, policy, quarantined)
                use, reason = _use(record, why, solutions.get(record.solver), policy)
            stale = record.driver != session.target.driver
            found.append(Standing(path, record, use, reason, stale))
    return found


def _use(
    record: FindRecord, why: Rejected | str | None, solution: Solution | None, policy: Policy
) -> tuple[Use, str]:
    if why is not None:
        return Use.UNUSED, str(why)
    if solution is None or solution.workspace != record.workspace:
        return Use.UNUSED, "another record of the solver, with other workspace, is better here"
    if solution.over_limit:
        return Use.OVER_LIMIT, f"needs more than {policy.workspace_limit} bytes of workspace"
    return Use.RETURNED, ""


def without_result(problem: ConvProblem, session: Session) -> tuple[str, ...]:
    """Solvers that take the problem, and about which searches decided without a record."""
    stored = session.database.lookup(session.target, problem)
    if stored is None:
        return ()
    measured = {f"{one.solver}@{one.solver_version}" for one in stored.entry.records}
    solvers, _ = session.registry.solvers_for(session.target)
    return tuple(
        solver.solver_id
        for solver in solvers
        if versioned_id(solver) in stored.entry.considered
        and versioned_id(solver) not in measured
        and asking.applicability(solver, problem, session.target)
    )
