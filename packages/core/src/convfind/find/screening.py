"""Which solvers take a problem under a policy, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from convfind.device.target import Target
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.session import Session
from convfind.solver import Solver, versioned_id
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected


@dataclass(frozen=True, slots=True)
class Screening:
    """Solvers that take a problem, in order, and the refusals of the others by id."""

    candidates: tuple[Solver, ...]
    rejected: Mapping[str, Rejected] = field(default_factory=dict)


def ask(solver: Solver, problem: ConvProblem, target: Target) -> Applicability:
    """Ask a solver whether it takes a problem; an exception in it is a refusal."""
    try:
        answer = solver.applicability(problem, target)
    except Exception as error:
        return Rejected(Reason.SOLVER_ERROR, f"{type(error).__name__}: {error}")
    if not isinstance(answer, (type(APPLICABLE), Rejected)):
        return Rejected(Reason.SOLVER_ERROR, f"applicability returned {answer!r}")
    return answer


def screen(
    problem: ConvProblem, session: Session, policy: Policy, *, dynamic_only: bool | None = None
) -> Screening:
    """Ask every solver for the device's backend: filters of the policy, quarantine, problem."""
    only_dynamic = policy.dynamic_only if dynamic_only is None else dynamic_only
    solvers, foreign = session.registry.solvers_for(session.target)
    rejected = dict(foreign)
    quarantined = {
        f"{record.solver}@{record.solver_version}": record
        for record in session.database.quarantined(session.target, problem)
        if record.driver == session.target.driver
    }
    candidates = []
    for solver in solvers:
        answer: Applicability
        record = quarantined.get(versioned_id(solver))
        if not policy.allows(solver.solver_id, solver.algorithm):
            answer = Rejected(Reason.DENIED)
        elif record is not None:
            answer = Rejected(Reason.QUARANTINED, f"{record.reason}: {record.detail}")
        elif isinstance(answer := ask(solver, problem, session.target), Rejected):
            pass
        elif only_dynamic and not solver.is_dynamic:
            answer = Rejected(Reason.NOT_DYNAMIC)
        if isinstance(answer, Rejected):
            rejected[solver.solver_id] = answer
        else:
            candidates.append(solver)
    return Screening(tuple(candidates), rejected)
