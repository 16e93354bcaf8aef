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
    refused = solver.domain.refusal(problem, target)
    return _ask_inside(solver, problem, target) if refused is None else refused


def _ask_inside(solver: Solver, problem: ConvProblem, target: Target) -> Applicability:
    """Ask it about a problem of its domain."""
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
    """Ask the solvers in whose domain a problem lies: policy, quarantine, domain, sizes."""
    only_dynamic = policy.dynamic_only if dynamic_only is None else dynamic_only
    target = session.target
    solvers, refused = session.registry.candidates_for(problem, target)
    rejected = dict(refused)
    if policy.is_filtered:
        for solver in session.registry.solvers_for(target)[0]:
            if not policy.allows(solver.solver_id, solver.algorithm):
                rejected[solver.solver_id] = Rejected(Reason.DENIED)
    quarantined = {
        f"{record.solver}@{record.solver_version}": record
        for record in session.database.quarantined(target, problem)
        if record.driver == target.driver
    }
    candidates = []
    for solver in solvers:
        if solver.solver_id in rejected:
            continue
        answer: Applicability
        record = quarantined.get(versioned_id(solver))
        if record is not None:
            answer = Rejected(Reason.QUARANTINED, f"{record.reason}: {record.detail}")
        elif isinstance(answer := _ask_inside(solver, problem, target), Rejected):
            pass
        elif only_dynamic and not solver.is_dynamic:
            answer = Rejected(Reason.NOT_DYNAMIC)
        if isinstance(answer, Rejected):
            rejected[solver.solver_id] = answer
        else:
            candidates.append(solver)
    return Screening(tuple(candidates), rejected)
