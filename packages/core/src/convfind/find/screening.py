"""Screening: the solvers that take a problem under a policy, and why the others do not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from convfind.find.validity import has_other_kernels
from convfind.finddb import QuarantineRecord
from convfind.policy import OnMiss, Policy
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.runtime.session import Session
from convfind.solver import Solver, asking
from convfind.solver.applicability import Applicability, Rejected


@dataclass(frozen=True, slots=True)
class Screening:
    """Solvers that take a problem, in order, and the refusals of the others by id."""

    candidates: tuple[Solver, ...]
    rejected: Mapping[str, Rejected] = field(default_factory=dict)


def quarantine_in_force(problem: Problem, session: Session) -> Mapping[tuple[str, int], Rejected]:
    """Refusals, by id and version, of the solvers that failed on a plain problem.

    A quarantine ends with another driver, another version, or other kernel files.
    """
    found = {}
    for record in session.database.quarantined(session.target, problem):
        solver = session.registry.find_solver(record.solver)
        if record.driver != session.target.driver or solver is None:
            continue
        if solver.version == record.solver_version and not has_other_kernels(
            record, solver, problem, session, None
        ):
            found[record.solver, record.solver_version] = _quarantined(record)
    return found


def _quarantined(record: QuarantineRecord) -> Rejected:
    day = time.strftime("%Y-%m-%d", time.gmtime(record.created))
    again = "another version or kernel is tried again"
    lifting = f"`convfind db quarantine lift --solver {record.solver}` lifts it"
    return Rejected(
        Reason.QUARANTINED, f"on {day}, {record.reason}: {record.detail}; {again}; {lifting}"
    )


def screen(problem: Problem, session: Session, policy: Policy) -> Screening:
    """Ask the solvers in whose domain a problem lies: policy, quarantine, domain, sizes."""
    # Estimates are for quick starts: one binary for many shapes, unless solvers are named.
    estimates = policy.on_miss is OnMiss.ESTIMATE
    only_dynamic = policy.solvers is None if estimates else policy.dynamic_only
    target = session.target
    solvers, refused = session.registry.candidates_for(problem, target)
    rejected = dict(refused)
    if policy.is_filtered:
        for solver in session.registry.offered(problem):
            if solver.backend_refusal(target) is not None:
                continue
            if not policy.allows(solver.solver_id, solver.algorithm):
                rejected[solver.solver_id] = Rejected(Reason.DENIED)
    quarantined = quarantine_in_force(problem, session)
    candidates = []
    for solver in solvers:
        if solver.solver_id in rejected:
            continue
        answer: Applicability
        why = quarantined.get((solver.solver_id, solver.version))
        if why is not None:
            answer = why
        elif isinstance(answer := asking.sizes(solver, problem, target), Rejected):
            pass
        elif only_dynamic and not solver.is_dynamic:
            answer = Rejected(Reason.NOT_DYNAMIC)
        if isinstance(answer, Rejected):
            rejected[solver.solver_id] = answer
        else:
            candidates.append(solver)
    return Screening(tuple(candidates), rejected)
