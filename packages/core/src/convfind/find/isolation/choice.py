"""Where the candidates of a search run: in this process, or in a child."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from convfind.errors import ConvfindError, DeviceError, LostError
from convfind.find.bench import Bench, LocalBench
from convfind.find.budget import Budget
from convfind.find.isolation.wire import ForeignError
from convfind.find.screening import Screening
from convfind.log import logger
from convfind.policy import Isolate, Policy
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.runtime.session import Session
from convfind.solver import Solver
from convfind.solver.applicability import Rejected

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
    problem: Problem, session: Session, policy: Policy, budget: Budget, screening: Screening
) -> tuple[Bench, Screening]:
    """Return the bench on which the candidates of a search run, and who runs there.

    Where the child that others would have cannot be had, those of this project run here and nobody
    else: what a child is for may end this process.

    Raises:
        DeviceError: the child cannot be had, and nobody is to run here, by the policy.
    """
    constant_weights = policy.constant_weights
    if is_isolated(session, policy, screening.candidates) and session.child is not None:
        from convfind.find.isolation.bench import IsolatedBench

        child = session.child
        try:
            bench = IsolatedBench(
                child, problem, session, budget, constant_weights=constant_weights
            )
        except ForeignError as error:
            logger.warning("candidates run in this process, not in a child: %s", error)
        except ConvfindError as error:
            screening = _without_a_child(screening, session, policy, error)
        else:
            return bench, screening
    return LocalBench(problem, session, constant_weights=constant_weights), screening


def _without_a_child(
    screening: Screening, session: Session, policy: Policy, error: ConvfindError
) -> Screening:
    """Return who may run in this process although a child was to be had. Raises `DeviceError`."""
    detail = error.detail if isinstance(error, LostError) else str(error)
    if policy.isolate is Isolate.ALWAYS:
        msg = (
            f"no child process can be had for the candidates ({detail}); end what takes the "
            "machine's memory or the device, or take isolate='never', which runs them in this one"
        )
        raise DeviceError(msg) from error
    others = [one for one in screening.candidates if not _is_of_this_project(one, session)]
    logger.warning(
        "no child process can be had (%s); left out, as they may not run in this one: %s",
        *(detail, ", ".join(solver.solver_id for solver in others)),
    )
    why = Rejected(Reason.NO_CHILD, detail)
    return replace(
        screening,
        candidates=tuple(one for one in screening.candidates if one not in others),
        rejected={**screening.rejected, **{one.solver_id: why for one in others}},
    )


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
    return policy.isolate is Isolate.ALWAYS or not all(
        _is_of_this_project(solver, session) for solver in candidates
    )


def _is_of_this_project(solver: Solver, session: Session) -> bool:
    """Return whether a solver is registered by a distribution of this project."""
    return session.registry.package_of(solver.solver_id).partition(" ")[0] in _OWN
