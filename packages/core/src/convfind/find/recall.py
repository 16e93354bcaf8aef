"""Answers from the database: records that still hold, and what a search would have to add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from convfind.errors import SolverError
from convfind.find.ranking import ranked
from convfind.find.recorded import outrun_id, solution_of
from convfind.find.result import FindOrigin
from convfind.find.screening import Screening, quarantine_in_force, screen
from convfind.find.solution import Solution, TimeOrigin
from convfind.find.validity import has_other_kernels, why_config_is_unused
from convfind.finddb import FindEntry, FindRecord, StoredEntry
from convfind.finddb.evidence import doubtful
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.runtime.session import Session
from convfind.solver import Solver, asking, versioned_id
from convfind.solver.applicability import Rejected

_MOST_CONCLUDED = 16  # policies that ask about one entry


@dataclass(frozen=True, slots=True)
class Recalled:
    """The database's answer about a problem, checked against the solvers installed now."""

    solutions: tuple[Solution, ...] = ()
    rejected: dict[str, Rejected] = field(default_factory=dict)
    considered: frozenset[str] = frozenset()
    in_doubt: frozenset[str] = frozenset()  # versioned ids, measured beside other work
    outdated: frozenset[str] = frozenset()  # the same, to be measured: led in another version

    @property
    def answers(self) -> bool:
        """True where a recorded solution fits the workspace limit."""
        return any(not solution.over_limit for solution in self.solutions)

    @property
    def is_in_doubt(self) -> bool:
        """True where another one may be the fastest, and a find that measures finds out."""
        return bool(self.in_doubt or self.outdated)

    @property
    def origin(self) -> FindOrigin:
        """The layer that the fastest solution comes from."""
        shipped = self.solutions[0].time_origin is TimeOrigin.SYSTEM_DB
        return FindOrigin.SYSTEM_DB if shipped else FindOrigin.USER_DB


def recall(problem: Problem, session: Session, policy: Policy) -> Recalled:
    """Look a plain problem up. For each solver the fastest record within the limit counts."""
    stored = session.database.lookup(session.target, problem)
    if stored is None:
        return Recalled()
    quarantined = quarantine_in_force(problem, session)
    asked = problem, policy, session.target, session.registry, tuple(quarantined.items())
    known = stored.concluded.get(asked)
    if not isinstance(known, Recalled):
        known = _recalled(stored, problem, session, policy, quarantined)
        if len(stored.concluded) >= _MOST_CONCLUDED:
            stored.concluded.clear()
        stored.concluded[asked] = known
    return known


def _recalled(
    stored: StoredEntry,
    problem: Problem,
    session: Session,
    policy: Policy,
    quarantined: Mapping[tuple[str, int], Rejected],
) -> Recalled:
    found: dict[str, Solution] = {}
    records: dict[str, FindRecord] = {}
    rejected: dict[str, Rejected] = {}
    for record in stored.entry.records:  # fastest first
        known = found.get(record.solver)
        if known is not None and not known.over_limit:
            continue
        why = why_unused(record, problem, session, policy, quarantined)
        if isinstance(why, Rejected):
            rejected[record.solver] = why
        if why is not None:
            continue
        is_own = record.solver in stored.from_user
        origin = TimeOrigin.USER_DB if is_own else TimeOrigin.SYSTEM_DB
        solution = solution_of(record, origin, problem, session, policy)
        if known is None or not solution.over_limit:
            found[record.solver], records[record.solver] = solution, record
    solutions = ranked(found.values(), policy.order)
    considered = _considered(stored.entry, policy)
    # Looking at kernels means building a recipe. The best one is built next anyway, to be run.
    while solutions and solutions[0].time_origin is TimeOrigin.USER_DB:
        record = records[solutions[0].solver]
        solver = session.registry.solver(record.solver)
        if not has_other_kernels(record, solver, problem, session, record.workspace):
            break
        solutions, considered = solutions[1:], considered - {versioned_id(solver)}
    best = next((one.time_ms for one in solutions if not one.over_limit), None)
    outdated = frozenset(
        versioned_id(solver)
        for solver in _led_before(stored.entry, best, session, policy)
        if _is_open(solver, policy, considered)
        and (solver.solver_id, solver.version) not in quarantined
        and asking.applicability(solver, problem, session.target)
        and _fits(solver, problem, session, policy)
    )
    return Recalled(solutions, rejected, considered, doubtful(stored.entry), outdated)


def _led_before(
    entry: FindEntry, best: float | None, session: Session, policy: Policy
) -> Iterator[Solver]:
    """Yield the solvers that took less time in another version than all whose records hold."""
    for record in entry.records:
        solver = session.registry.find_solver(record.solver)
        if (
            solver is not None
            and solver.version != record.solver_version
            and record.constant_weights == policy.constant_weights
            and (best is None or record.time_ms < best)
        ):
            yield solver


def _is_open(solver: Solver, policy: Policy, considered: Set[str]) -> bool:
    """Tell whether the policy would measure a solver that no search has decided about yet."""
    return (
        versioned_id(solver) not in considered
        and not (policy.races and outrun_id(solver) in considered)
        and not solver.is_last_resort
        and (solver.is_dynamic or not policy.dynamic_only)
        and policy.allows(solver.solver_id, solver.algorithm)
    )


def _considered(entry: FindEntry, policy: Policy) -> frozenset[str]:
    """Solvers decided about under the policy: with constant weights each is measured apart."""
    here, otherwise = set[str](), set[str]()
    for record in entry.records:
        kind = here if record.constant_weights == policy.constant_weights else otherwise
        kind.add(f"{record.solver}@{record.solver_version}")
    return frozenset(entry.considered) - (otherwise - here)


def why_unused(
    record: FindRecord,
    problem: Problem,
    session: Session,
    policy: Policy,
    quarantined: Mapping[tuple[str, int], Rejected],
) -> Rejected | str | None:
    """Say why a record is no answer here and now: a refusal, or in words what it is about instead.

    Returns:
        None where the record counts, under the workspace limit or over it.
    """
    solver = session.registry.find_solver(record.solver)
    if solver is None:
        return "no installed package brings the solver"
    if solver.version != record.solver_version:
        return f"measured in version {record.solver_version}; installed is {solver.version}"
    if record.constant_weights != policy.constant_weights:
        return "timed with constant weights" if record.constant_weights else "timed with packing"
    if not policy.allows(record.solver, solver.algorithm):
        return Rejected(Reason.DENIED)
    failed = quarantined.get((record.solver, record.solver_version))
    if failed is not None:
        return failed
    answer = asking.applicability(solver, problem, session.target)
    if isinstance(answer, Rejected):
        return answer
    return why_config_is_unused(record, solver, problem, session)


def unmeasured(problem: Problem, session: Session, policy: Policy, recalled: Recalled) -> Screening:
    """Return the solvers that no search has decided about yet and the policy would measure."""
    solvers, _ = session.registry.candidates_for(problem, session.target)
    unknown = [solver for solver in solvers if _is_open(solver, policy, recalled.considered)]
    if not recalled.outdated.isdisjoint(map(versioned_id, unknown)):
        # The leader of an earlier version runs beside the best of the others, in the same moment.
        unknown += _best_recorded(session, recalled)
    # Most solvers that came after a record was shipped do not take its problem at all.
    if not any(asking.applicability(solver, problem, session.target) for solver in unknown):
        return Screening(())
    screening = screen(problem, session, policy)
    return Screening(
        tuple(
            solver
            for solver in screening.candidates
            if solver in unknown and _has_room(solver, problem, session, policy, recalled.solutions)
        ),
        screening.rejected,
    )


def _best_recorded(session: Session, recalled: Recalled) -> list[Solver]:
    names = [one.solver for one in recalled.solutions if not one.over_limit]
    return [session.registry.solver(name) for name in names[:1]]


def _has_room(
    solver: Solver,
    problem: Problem,
    session: Session,
    policy: Policy,
    known: Sequence[Solution],
) -> bool:
    """Under a workspace limit, what fits is recorded already or does not fit at all."""
    if policy.workspace_limit is None:
        return True
    if any(found.solver == solver.solver_id and not found.over_limit for found in known):
        return False
    return _fits(solver, problem, session, policy)


def _fits(solver: Solver, problem: Problem, session: Session, policy: Policy) -> bool:
    """Tell whether a solver may keep to the policy's workspace limit."""
    limit = policy.workspace_limit
    if limit is None:
        return True
    try:
        return asking.workspace_size(solver, problem, session.target, limit) <= limit
    except SolverError:
        return True  # measuring says why it fails
