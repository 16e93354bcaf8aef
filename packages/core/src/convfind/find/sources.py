"""Sources of forecasts: records, models and indices, of this device and of related ones.

Their errors were measured on the times in ``benchmarks/tuned``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from convfind.device.target import DeviceKind, Target
from convfind.errors import SolverError
from convfind.find.advice import ask_heuristics
from convfind.find.forecast import SIBLINGS, Source
from convfind.find.packing import Packing
from convfind.heuristics.neighbours import other_batches, other_sizes
from convfind.kit.composed import Composed, without_epilogue
from convfind.kit.throughput import index_ms
from convfind.policy import Fallback
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver import Solver, asking, versioned_id

_RECORD, PLAIN_ERROR, _MODEL, INDEX_ERROR = 0.1, 0.1, 0.15, 0.3
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


@dataclass(frozen=True, slots=True)
class Records:
    """Recorded times by versioned id: measured as the policy measures, else brought to that."""

    session: Session
    constant_weights: bool
    packing: Packing

    def times(self, identity: str, problem: Problem) -> dict[str, float]:
        """Return the times of a problem on a device."""
        ask, kind = self.session.times, self.constant_weights
        if found := ask(identity, problem, constant_weights=kind):
            return found
        found = ask(identity, problem, constant_weights=not kind)
        return self.packing.as_measured(found, constant_weights=not kind)


def recorded(
    problem: Problem, session: Session, solvers: Sequence[Solver], records: Records
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


def _earlier(times: Mapping[str, float], ids: Mapping[str, str]) -> dict[str, float]:
    """Return the times of solvers that were recorded in another version alone."""
    known = {ids[name] for name in times if name in ids}
    others = {name.rpartition("@")[0]: time for name, time in times.items() if name not in ids}
    return {one: others[one] for one in ids.values() if one in others and one not in known}


def _apart(
    error: float, others: Iterable[tuple[float, Problem]]
) -> Iterator[tuple[float, Problem]]:
    """Yield problems of other sizes after their error, which grows with each doubling."""
    return ((max(_RECORD, error * abs(math.log2(ratio))), other) for ratio, other in others)


def plain_form(
    problem: Problem, session: Session, solvers: Sequence[Solver], records: Records
) -> dict[str, float]:
    """Times of the problem without its epilogue, by the solvers that take it with one.

    A step behind a solver costs as much of its time as their indices say.
    """
    plain = without_epilogue(problem)
    if plain is problem:
        return {}
    known = records.times(session.target.identity, plain)
    found = {}
    for solver in solvers:
        name = f"{solver.solver_id.replace(Composed.suffix, '')}@{solver.version}"
        if name in known:
            found[solver.solver_id] = known[name] * _cost_of_steps(problem, session, solver)
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


def modelled(
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


def indexed(
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
