"""`Lineup`: the candidates of a search with their recipes, in the order in which they start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from convfind.errors import SolverError
from convfind.find.forecast import Forecast
from convfind.find.known import known
from convfind.find.network_programs import Contender, Field
from convfind.find.race import COMPILED_MARGIN, DECLINED_MARGIN, READY_MARGIN, Race
from convfind.find.trial import Trial, refusal
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.runtime.session import Session
from convfind.solver import Solver, TunableSolver, asking
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program

#: Whether programs need no compiling.
IsReady = Callable[[tuple[Program, ...]], bool]


class Refused(NamedTuple):
    """A solver that does not start, and whether later searches need not ask it again."""

    solver: Solver
    why: Rejected
    is_settled: bool = True


@dataclass(frozen=True, slots=True)
class Lineup:
    """Who starts, in which order, and who does not.

    Attributes:
        trials: by solver id, those whose recipe can be built.
        race: who of them can still win.
        order: their solvers, the most promising first.
        refused: the others.
        forecasts: by solver id, as they were without lessons.
    """

    trials: Mapping[str, Trial]
    race: Race
    order: tuple[Solver, ...]
    refused: tuple[Refused, ...]
    forecasts: Mapping[str, Forecast]

    @classmethod
    def of(
        cls,
        solvers: Sequence[Solver],
        problem: Problem,
        session: Session,
        policy: Policy,
        *,
        configs: Mapping[str, Config] | None = None,
        is_ready: IsReady = lambda programs: False,
    ) -> Lineup:
        """Build the recipes of solvers, and bring them into the order of what is known.

        ``configs`` fixes the configs of solvers by id; others get their recorded or default ones.
        """
        trials: dict[str, Trial] = {}
        refused: list[Refused] = []
        for solver in solvers:
            fixed = configs.get(solver.solver_id) if configs else None
            built = _built(solver, problem, session, policy, fixed)
            if isinstance(built, Trial):
                trials[solver.solver_id] = built
            else:
                refused.append(built)
        able = [trial.solver for trial in trials.values()]
        facts = known(problem, session, able, policy)
        for solver_id, error in facts.failures.items():
            refused.append(Refused(trials.pop(solver_id).solver, refusal(error)))
        favoured = session.favoured.get(problem)

        def margin(solver: Solver) -> float:
            if is_ready(trials[solver.solver_id].programs):
                return READY_MARGIN
            is_favoured = favoured is None or solver.solver_id in favoured
            return COMPILED_MARGIN if is_favoured else DECLINED_MARGIN

        race = Race(facts, margin)
        order = race.order(trial.solver for trial in trials.values())
        return cls(trials, race, tuple(order), tuple(refused), facts.uncorrected)

    def field(self, weight: int, *, races: bool) -> Field:
        """Return who may run, and what is expected of them, before anything is measured.

        Args:
            weight: how often a network has the problem.
            races: whether the policy leaves out who cannot win.
        """
        contenders = {}
        for solver in self.order:
            if races and self.race.is_out(solver):
                continue
            forecast = self.race.forecast(solver) if races else None
            programs = frozenset(self.trials[solver.solver_id].programs)
            contenders[solver.solver_id] = Contender(forecast, programs)
        return Field(contenders, weight)


def recorded_config(
    solver: Solver, problem: Problem, session: Session, policy: Policy
) -> Config | None:
    """Return the tuned config of an earlier search, if it is still legal."""
    if policy.retune or not isinstance(solver, TunableSolver):
        return None
    config = session.database.config(session.target, problem, solver.solver_id, solver.version)
    why = asking.config_fault(solver, problem, session.target, config)
    return config if why is None else None


def _built(
    solver: Solver, problem: Problem, session: Session, policy: Policy, config: Config | None
) -> Trial | Refused:
    """Build a solver's recipe within the workspace limit, if need be with its own config."""
    limit = policy.workspace_limit
    try:
        config = config or recorded_config(solver, problem, session, policy)
        recipe = asking.remembered_recipe(solver, problem, session.target, config, limit)
        if config is not None and policy.is_over_limit(recipe.total_workspace):
            recipe = asking.remembered_recipe(solver, problem, session.target, None, limit)
    except SolverError as error:
        return Refused(solver, refusal(error))
    if policy.is_over_limit(recipe.total_workspace):
        detail = f"{recipe.total_workspace} bytes of {limit}"
        return Refused(solver, Rejected(Reason.WORKSPACE, detail), is_settled=False)
    return Trial(solver, recipe)
