"""`Decision`: what a find does about a problem, and why; finding and explaining share it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from convfind.find.recall import Recalled, recall, unmeasured
from convfind.find.screening import Screening, screen
from convfind.find.solution import Solution
from convfind.policy import CheckHit, OnMiss, Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver import versioned_id

_NOBODY = Screening(())


class Action(StrEnum):
    """A find's way to answer a problem."""

    ANSWER = "answer from the database"
    CHECK = "run what is recorded again before trusting it"
    EXTEND = "answer from the database, and measure what no search has decided about"
    MEASURE = "measure"
    ESTIMATE = "estimate; nothing runs"


@dataclass(frozen=True, slots=True)
class Decision:
    """An action and what it is about; nothing has been compiled or run for it."""

    action: Action
    policy: Policy
    known: Recalled  # what the database says
    screening: Screening = _NOBODY  # whom to measure or estimate
    is_measured: bool = True  # the kind of problem

    @property
    def measures(self) -> bool:
        """True where something runs."""
        return self.action not in (Action.ANSWER, Action.ESTIMATE)

    @property
    def checked(self) -> tuple[Solution, ...]:
        """The recorded solutions that are run again before they are trusted."""
        if self.action is not Action.CHECK:
            return ()
        usable = tuple(one for one in self.known.solutions if not one.over_limit)
        return usable if self.policy.check_hit is CheckHit.ALL else usable[:1]

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of the solvers that run; a last resort does only where there is no other."""
        if self.action is Action.CHECK:
            return tuple(solution.solver for solution in self.checked)
        if self.action is Action.ESTIMATE:
            return ()
        candidates = self.screening.candidates
        usual = [solver for solver in candidates if not solver.is_last_resort]
        return tuple(solver.solver_id for solver in usual or candidates)

    @property
    def is_in_doubt(self) -> bool:
        """True where a find beside other work recorded what is known of those who may run."""
        candidates = {versioned_id(solver) for solver in self.screening.candidates}
        return not self.known.in_doubt.isdisjoint(candidates)

    @property
    def reason(self) -> str:
        """Why the action is taken, in words."""
        if not self.is_measured:
            return "problems of this kind go to the first solver that takes them"
        if not self.policy.use_db:
            return "this policy does not look into the database"
        if not self.known.solutions:
            return "no record holds here and now"
        if not self.known.answers:
            return f"every record needs more than {self.policy.workspace_limit} bytes of workspace"
        match self.action:
            case Action.CHECK:
                return f"the policy checks {self.policy.check_hit.value} of what is recorded"
            case Action.EXTEND if self.is_in_doubt:
                return f"{', '.join(self.runs)} ran beside other work, and may be faster or slower"
            case Action.EXTEND if self.known.outdated:
                return f"{', '.join(self.runs)}: the fastest one was measured in another version"
            case Action.EXTEND:
                return f"no search has decided about {', '.join(self.runs)}"
        if self.policy.on_miss is OnMiss.ESTIMATE:
            return "what is recorded holds, and this policy measures nothing"
        return "what is recorded holds, and no solver is left to measure"


def decide(problem: Problem, session: Session, policy: Policy) -> Decision:
    """Decide what a find of a plain problem does; changes nothing and runs nothing."""
    if not problem.is_measured:
        return Decision(
            Action.ESTIMATE, policy, Recalled(), screen(problem, session, policy), False
        )
    known = recall(problem, session, policy) if policy.use_db else Recalled()
    measures = policy.on_miss is OnMiss.MEASURE
    if not known.answers:
        action = Action.MEASURE if measures else Action.ESTIMATE
        return Decision(action, policy, known, screen(problem, session, policy))
    if not measures:
        return Decision(Action.ANSWER, policy, known)
    if policy.check_hit is not CheckHit.NO:
        return Decision(Action.CHECK, policy, known)
    screening = unmeasured(problem, session, policy, known)
    action = Action.EXTEND if screening.candidates else Action.ANSWER
    return Decision(action, policy, known, screening)
