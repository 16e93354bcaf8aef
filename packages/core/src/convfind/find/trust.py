"""Trust but verify: recorded solutions run again before they are believed."""

from __future__ import annotations

import math
from dataclasses import replace

from convfind.find.recall import Recalled
from convfind.find.recording import record
from convfind.find.screening import Screening
from convfind.find.search import Search
from convfind.find.tally import Tally
from convfind.log import logger
from convfind.policy import CheckHit, Policy
from convfind.problem import ConvProblem
from convfind.runtime.session import Session, silent


def still_true(
    plain: ConvProblem, session: Session, policy: Policy, known: Recalled, tally: Tally
) -> bool:
    """Run the recorded winner, or all, again; False where one fails or exceeds the tolerance.

    What holds is recorded with its new time, so that a shipped or stale record becomes the user's.
    """
    usable = [solution for solution in known.solutions if not solution.over_limit]
    chosen = usable if policy.check_hit is CheckHit.ALL else usable[:1]
    configs = {s.solver: s.config for s in chosen if s.config is not None}
    solvers = tuple(session.registry.solver(solution.solver) for solution in chosen)
    search = Search(plain, session, replace(policy, tune=False), silent, configs)
    outcome = search.run(Screening(solvers))
    tally.measured += len(outcome.trials)
    now = {solution.solver: solution.time_ms for solution in outcome.solutions}
    allowed = 1 + policy.tolerance
    for s in chosen:
        if now.get(s.solver, math.inf) > s.time_ms * allowed:
            logger.info(
                "%s: recorded %.4g ms, now %.4g: its problem is measured anew",
                *(s.solver, s.time_ms, now.get(s.solver, math.inf)),
            )
            return False
    record(plain, session, policy, outcome)
    return True
