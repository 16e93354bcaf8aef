"""Forecasts: how long solvers may take, by all that is known before any of them has run.

Each source knows the times of some solvers with an error of its own, and most know them only in
comparison with each other: what matters in a race is how far behind the leader a solver will be.
The errors are standard deviations of the logarithm of such ratios, measured on the times in
``benchmarks/tuned``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from convfind.device.target import DeviceKind, Target
from convfind.errors import SolverError
from convfind.find.advice import ask_heuristics
from convfind.find.lessons import corrected, credible, well_known
from convfind.find.packing import Packing
from convfind.heuristics.neighbours import other_batches, other_sizes
from convfind.kit.composed import Composed, without_epilogue
from convfind.kit.throughput import index_ms
from convfind.policy import Fallback, Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver import Solver, asking, versioned_id
from convfind.types import Algorithm

#: So many of the plain problem's best solvers at most are candidates for one with an epilogue, ...
PLAIN_BEST = 3
#: ... unless they would take this many times as long as one that has the epilogue inside, which
#: hardly takes longer with it.
_BEHIND = 1.1

#: The source whose word is each solver's own.
INDEX: Final = "index"
#: The sources that say what is right on another device.
SIBLINGS: Final = ("record of a related device", "model of a related device")

_RECORD, _PLAIN, _MODEL, _INDEX = 0.1, 0.1, 0.15, 0.3
#: The same of a record of a solver in another version, which may do something else.
_EARLIER = 0.3
#: The same of a record of the layer at another size, for each doubling or halving: of the batch,
#: and of both axes of images.
_BATCH, _SIZE = 0.12, 0.2
#: The same of a record, and of a model, where it is another device's: by its kinship. A twin is a
#: GPU whose memory or clock alone is another: through CUDA an H200's ratios are an H100's within
#: 0.04.
_SIBLING_RECORD = {"twin": 0.05, "model": 0.17, "architecture": 0.17, "kind": 0.3}
_KINSHIPS = ("twin", "model", "architecture", "kind")  # the closest first
_SIBLING_MODEL = {"twin": 0.16, "model": 0.25, "architecture": 0.25, "kind": 0.3}


class Forecast(NamedTuple):
    """An expected time, whose ratio to others of the same problem may be off by ``error``."""

    time_ms: float
    error: float
    source: str

    @property
    def is_foreign(self) -> bool:
        """True where another device is behind it, or the solver's own word."""
        return self.source in (INDEX, *SIBLINGS)


class Source(NamedTuple):
    """Times of some solvers by id, on a scale of their own, and the error of their ratios."""

    name: str
    error: float
    times: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Known:
    """Forecasts by solver id, and the best of the plain problem where that is recorded.

    Solvers that failed when they were asked are in ``failures``. Forecasts as they were before the
    lessons of earlier finds are in ``uncorrected``, and the solvers about which lessons decide are
    those in ``well_known``. All who were asked have their algorithm in ``algorithms``.
    """

    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    plain_best: tuple[str, ...] = ()
    failures: Mapping[str, SolverError] = field(default_factory=dict)
    uncorrected: Mapping[str, Forecast] = field(default_factory=dict)
    well_known: frozenset[str] = frozenset()
    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)


def known(problem: Problem, session: Session, solvers: Sequence[Solver], policy: Policy) -> Known:
    """Ask every source once about the solvers that take a plain problem."""
    fallback = policy.fallback
    packing = Packing(problem, session, solvers, policy)
    records = _Records(session, policy.constant_weights, packing)
    plain = _plain_form(problem, session, solvers, records)
    sources = [*_records(problem, session, solvers, records)]
    if plain:
        sources.append(Source("the plain problem's record", _PLAIN, plain))
    indices, failures = _indices(problem, session, solvers)
    others = [*_models(problem, session, solvers, fallback)]
    if fallback is not Fallback.GEMM:
        others.append(Source(INDEX, _INDEX, indices))
    sources += (one._replace(times=packing.as_measured(one.times)) for one in others)
    forecasts = combined(sources)
    lessons, constant = session.lessons, policy.constant_weights
    better = corrected(lessons, problem, forecasts, constant_weights=constant)
    familiar = well_known(lessons, problem, forecasts, constant_weights=constant)
    algorithms = {solver.solver_id: solver.algorithm for solver in solvers}
    return Known(better, _best_plain(plain), failures, forecasts, familiar, algorithms)


def _best_plain(plain: Mapping[str, float]) -> tuple[str, ...]:
    """Return who may be the fastest with an epilogue, by times that follow from those without."""
    best = sorted(plain, key=plain.__getitem__)
    inside = [plain[solver] for solver in best if Composed.suffix not in solver]
    limit = _BEHIND * min(inside or plain.values(), default=0.0)
    return tuple(solver for solver in best[:PLAIN_BEST] if plain[solver] <= limit)


def combined(sources: Sequence[Source]) -> dict[str, Forecast]:
    """Make one forecast for each solver: the mean of what sources say, weighted by their trust.

    A source is brought to the scale of the better ones by the solvers that both know. The error is
    that of the best source: what errs together, as models of related devices do, does not err less.
    Where a time and a solver's own word cannot both be true, nothing is known of that solver.
    """
    sums: dict[str, _Sum] = {}
    contradicted = _contradicted(sources)
    for source in sorted(sources, key=lambda one: one.error):
        known = _logs(source)
        logs = {solver: log for solver, log in known.items() if solver not in contradicted}
        shift, weight = _shift(logs, sums), source.error**-2
        for solver, log in logs.items():
            before = sums.get(solver) or _Sum(0.0, 0.0, source)
            total = before.total + weight * (log + shift)
            sums[solver] = _Sum(before.weight + weight, total, before.best)
    return {
        solver: Forecast(math.exp(one.mean), one.best.error, one.best.name)
        for solver, one in sums.items()
    }


def _contradicted(sources: Sequence[Source]) -> set[str]:
    """Return the solvers whose indices are far from their times, beside those of the others."""
    indices = next((_logs(one) for one in sources if one.name == INDEX), {})
    found: set[str] = set()
    for logs in map(_logs, sources):
        off = {solver: log - indices[solver] for solver, log in logs.items() if solver in indices}
        found |= off.keys() - credible(off).keys()
    return found


def _logs(source: Source) -> dict[str, float]:
    return {solver: math.log(time) for solver, time in source.times.items() if 0 < time < math.inf}


class _Sum(NamedTuple):
    """The forecast of a solver so far: logarithms by their weights, and the best source."""

    weight: float
    total: float
    best: Source

    @property
    def mean(self) -> float:
        return self.total / self.weight


def _shift(logs: Mapping[str, float], sums: Mapping[str, _Sum]) -> float:
    both = [sums[solver].mean - logs[solver] for solver in logs if solver in sums]
    if both:
        return math.fsum(both) / len(both)
    if not logs or not sums:
        return 0.0
    return min(one.mean for one in sums.values()) - min(logs.values())


# -- sources ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Records:
    """Recorded times by versioned id: measured as the policy measures, else brought to that."""

    session: Session
    constant_weights: bool
    packing: Packing

    def times(self, identity: str, problem: Problem) -> dict[str, float]:
        ask, kind = self.session.times, self.constant_weights
        if found := ask(identity, problem, constant_weights=kind):
            return found
        found = ask(identity, problem, constant_weights=not kind)
        return self.packing.as_measured(found, constant_weights=not kind)


def _records(
    problem: Problem, session: Session, solvers: Sequence[Solver], records: _Records
) -> Iterator[Source]:
    """Yield what is recorded: here, of layers that differ in size alone, on a related device."""
    ids = {versioned_id(solver): solver.solver_id for solver in solvers}

    def times(identity: str, other: Problem) -> dict[str, float]:
        found = records.times(identity, other)
        return {ids[name]: time for name, time in found.items() if name in ids}

    here = session.target.identity
    nearby: tuple[tuple[str, Iterable[tuple[float, Problem]]], ...] = (
        ("record", ((_RECORD, problem),)),
        ("record of another batch size", _apart(_BATCH, other_batches(problem))),
        ("record of another image size", _apart(_SIZE, other_sizes(problem))),
    )
    for name, others in nearby:
        for error, other in others:
            if found := times(here, other):
                yield Source(name, error, found)
                break
    if found := _earlier(records.times(here, problem), ids):
        yield Source("record of another version", _EARLIER, found)
    for identity, common in _relatives(session):
        if found := times(identity, problem):
            yield Source(SIBLINGS[0], _SIBLING_RECORD[common], found)
            return


def _earlier(recorded: Mapping[str, float], ids: Mapping[str, str]) -> dict[str, float]:
    """Return the times of solvers that were recorded in another version alone."""
    known = {ids[name] for name in recorded if name in ids}
    others = {name.rpartition("@")[0]: time for name, time in recorded.items() if name not in ids}
    return {one: others[one] for one in ids.values() if one in others and one not in known}


def _apart(
    error: float, others: Iterable[tuple[float, Problem]]
) -> Iterator[tuple[float, Problem]]:
    """Yield problems of other sizes after their error, which grows with each doubling."""
    return ((max(_RECORD, error * abs(math.log2(ratio))), other) for ratio, other in others)


def _plain_form(
    problem: Problem, session: Session, solvers: Sequence[Solver], records: _Records
) -> dict[str, float]:
    """Times of the problem without its epilogue, by the solvers that take it with one.

    A step behind a solver costs as much of its time as their indices say.
    """
    plain = without_epilogue(problem)
    if plain is problem:
        return {}
    recorded = records.times(session.target.identity, plain)
    found = {}
    for solver in solvers:
        name = f"{solver.solver_id.replace(Composed.suffix, '')}@{solver.version}"
        if name in recorded:
            found[solver.solver_id] = recorded[name] * _cost_of_steps(problem, session, solver)
    return found


def _cost_of_steps(problem: Problem, session: Session, solver: Solver) -> float:
    """Return how many times as long a solver takes with a step of core's for the epilogue."""
    if not isinstance(solver, Composed):
        return 1.0
    try:
        alone = asking.wti(solver.inner, without_epilogue(problem), session.target)
        whole = asking.wti(solver, problem, session.target)
    except SolverError:
        return 1.0  # told with the other indices
    return alone / whole if alone and whole else 1.0


def _models(
    problem: Problem, session: Session, solvers: Sequence[Solver], fallback: Fallback
) -> Iterator[Source]:
    """Yield the prediction of this device's model, else those for related devices."""
    advice = ask_heuristics(problem, session, solvers, fallback)
    if advice.predictions:
        yield Source("model", _MODEL, {one.solver: one.time_ms for one in advice.predictions})
        return
    if fallback is not Fallback.AI:
        return
    plain = without_epilogue(problem)
    ids = {solver.solver_id.replace(Composed.suffix, ""): solver.solver_id for solver in solvers}
    inner = [session.registry.solver(solver_id) for solver_id in ids]
    for identity, common in _relatives(session):
        for heuristic in session.heuristics:
            is_asked = getattr(heuristic, "kind", "conv") == problem.kind
            if not is_asked or identity not in getattr(heuristic, "devices", ()):
                continue
            times = heuristic.times_on(identity, plain, session.target, inner)  # type: ignore[attr-defined]
            if times:
                named = {ids[solver]: time for solver, time in times.items()}
                yield Source(SIBLINGS[1], _SIBLING_MODEL[common], named)


def _indices(
    problem: Problem, session: Session, solvers: Sequence[Solver]
) -> tuple[dict[str, float], dict[str, SolverError]]:
    """Return the time that each solver promises, and who fails.

    Networks add times of problems that models know to those of problems that they do not.
    """
    operations = max(problem.flops, 1)
    found, failures = {}, {}
    for solver in solvers:
        try:
            index = asking.wti(solver, problem, session.target)
        except SolverError as error:
            failures[solver.solver_id] = error
            continue
        if index is not None and index > 0:
            found[solver.solver_id] = index_ms(operations, session.target, index)
    return found, failures


def _relatives(session: Session) -> list[tuple[str, str]]:
    """Devices that models or records know and that resemble this one, with what they share.

    The closest come first: the same model with other units, then the same architecture.
    """
    target = session.target
    by_models = (
        identity
        for heuristic in session.heuristics
        for identity in getattr(heuristic, "devices", ())
    )
    devices = dict.fromkeys((*by_models, *session.database.devices()))
    kinships = {identity: kinship(identity, target) for identity in devices}
    found = [(identity, common) for identity, common in kinships.items() if common]
    return sorted(found, key=lambda one: _KINSHIPS.index(one[1]))


def kinship(identity: str, target: Target) -> str | None:
    """Say what another device has in common: all but memory and clock, model, architecture, kind.

    CPUs alone have a kind.
    """
    other = identity.split("|")
    if len(other) < 5 or identity in target.identities:
        return None
    # A GPU has one compiler behind all runtimes; for a CPU each runtime has its own.
    is_same_compiler = other[1] == target.platform or target.kind is DeviceKind.GPU
    if other[3] == target.arch and is_same_compiler:
        is_gpu = target.kind is DeviceKind.GPU and other[1] == target.platform
        if is_gpu and other[4] == str(target.compute_units):
            return "twin"
        names = {name.split("|")[2] for name in target.identities}
        return "model" if other[2] in names else "architecture"
    if other[1] != target.platform:
        return None
    family = target.arch.rpartition("-")[0]
    is_kin = target.kind is DeviceKind.CPU and family and other[3].startswith(family)
    return "kind" if is_kin else None
