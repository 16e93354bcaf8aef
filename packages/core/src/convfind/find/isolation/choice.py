"""Where the candidates of a search run: in this process, or in a child."""

from __future__ import annotations

from collections.abc import Iterable

from convfind.errors import ConvfindError
from convfind.find.bench import Bench, LocalBench
from convfind.find.budget import Budget
from convfind.log import logger
from convfind.policy import Isolate, Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver import Solver

#: The distributions of this project's own solvers.
_OWN = frozenset(
    {
        "convfind",
        "convfind-backend-cuda",
        "convfind-backend-hip",
        "convfind-backend-opencl",
        "convfind-operators",
        "convfind-solvers-direct",
        "convfind-solvers-fft",
        "convfind-solvers-igemm",
        "convfind-solvers-winograd",
    }
)

_OWN_MODULES = frozenset(name.replace("-", "_") for name in _OWN)


def is_own(solver: Solver) -> bool:
    """Return whether a solver is of this project, whoever has registered it."""
    return type(solver).__module__.partition(".")[0] in _OWN_MODULES


def bench_for(
    problem: Problem,
    session: Session,
    policy: Policy,
    budget: Budget,
    candidates: Iterable[Solver],
) -> Bench:
    """Return the bench on which the candidates of a search run."""
    if is_isolated(session, policy, candidates) and session.child is not None:
        from convfind.find.isolation.bench import IsolatedBench

        try:
            return IsolatedBench(
                *(session.child, problem, session, budget),
                constant_weights=policy.constant_weights,
            )
        except ConvfindError as error:
            logger.warning("candidates run in this process, not in a child: %s", error)
    return LocalBench(problem, session, constant_weights=policy.constant_weights)


def is_isolated(session: Session, policy: Policy, candidates: Iterable[Solver]) -> bool:
    """Return whether candidates are to run in a child."""
    if policy.isolate is Isolate.NEVER:
        return False
    if session.child is None:
        if policy.isolate is Isolate.ALWAYS:
            logger.warning(
                "candidates run in this process: a child cannot open the device as it was opened"
            )
        return False
    return policy.isolate is Isolate.ALWAYS or any(
        session.registry.package_of(solver.solver_id).partition(" ")[0] not in _OWN
        for solver in candidates
    )
