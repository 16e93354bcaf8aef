"""Races run again by the times of exhaustive finds: who would be compiled, and what that loses.

    python benchmarks/race.py benchmarks/layers/resnet50.txt -n 4 --device opencl:cpu --times FOLDER
    python benchmarks/race.py benchmarks/layers/{resnet50,vgg16}.txt -n 1 \\
        --target tuned/xeon/target.json --times tuned/xeon/networks-1.jsonl.bz2

FOLDER is a user's database with `convfind bench FILE --mode normal` in it, for the same layers and
device; a file is one that `convfind db export` wrote. Nothing runs: the layers of each file are
raced as finds that begin with an empty database would, the candidates take the given times, what a
race has compiled is ready in those that follow, and what it has measured is recorded for them, and
corrects their forecasts. The first choice is what immediate mode would run in an empty database.
With --target the device need not be here, and its own models are left out: nobody has seen it.
With --known, databases (folders, or files *.lmdb) with records of related devices, finds know
these, too, and a second line says how far such records can be trusted: the standard deviation of
ratios between solvers within a factor of 1.5 from one device to the other, and what the network
loses by each problem's fastest solver there.
"""

from __future__ import annotations

import bz2
import itertools
import json
import math
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import click
import msgspec

import convfind
from convfind.device.target import Target
from convfind.find.ahead import first_programs
from convfind.find.immediate import estimate
from convfind.find.known import Known
from convfind.find.known import known as known_about
from convfind.find.lessons import learn
from convfind.find.race import COMPILED_MARGIN, DECLINED_MARGIN, READY_MARGIN, Race
from convfind.find.screening import Screening, screen
from convfind.find.sources import kinship
from convfind.finddb import BinaryStore, FindDb, FindEntry, FindRecord
from convfind.plugins.registry import Registry
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.problem.text.layer_file import read_layer_file
from convfind.runtime.session import Session
from convfind.solver import Solver, asking, versioned_id
from convfind.solver.kernel_spec import Program
from convfind.types import Direction

_FILE = click.Path(path_type=Path, exists=True)
#: Solvers are compared from one device to another if they are within this factor there.
_CLOSE = 1.5


class Times(Protocol):
    """Looks up measured times in ms, by versioned id."""

    def __call__(self, identity: str, problem: ConvProblem) -> Mapping[str, float]:
        """Return those of a plain problem on a device, none where it was not measured."""


@dataclass
class Tally:
    """The cost and the finds of races so far."""

    problems: int = 0
    programs: set[Program] = field(default_factory=set)
    ready: set[Program] = field(default_factory=set)
    measured: int = 0
    raced: int = 0
    paid: float = 0.0
    first: float = 0.0  # by the first choices of immediate mode
    least: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.problems:4d} problems, compiled {len(self.ready):3d} programs of "
            f"{len(self.programs):3d}, measured {self.raced:4d} solvers of {self.measured:4d}, "
            f"loss {self.paid / self.least:.4f}, of first choices {self.first / self.least:.3f}, "
            f"forecasts {1e3 * self.seconds / self.problems:.2f} ms for each problem"
        )


@click.command()
@click.argument("layers", type=_FILE, nargs=-1, required=True)
@click.option("-n", "--batch", required=True, type=int)
@click.option("--device", help="Such as opencl:cpu.  [CONVFIND_DEVICE, else the best]")
@click.option("--target", type=_FILE, help="target.json of a device; its models are left out.")
@click.option("--times", "sources", required=True, type=_FILE, multiple=True)
@click.option("--known", type=_FILE, multiple=True, help="Databases with related devices.")
@click.option("--fallback", default="ai", type=click.Choice(("ai", "wti")), help="wti: no models.")
def main(
    layers: tuple[Path, ...],
    batch: int,
    device: str | None,
    target: Path | None,
    sources: tuple[Path, ...],
    known: tuple[Path, ...],
    fallback: str,
) -> None:
    """Race the layers of each file, and compare with measuring everybody."""
    policy = Policy().with_changes(fallback=fallback)
    times = _times(sources)
    for file in layers:
        session = _of_device(device) if target is None else _of_target(target)
        session = replace(session, database=FindDb.open(None, known))
        problems = list(problems_of(file, batch))
        related = [_likeness(problems, session, times, one) for one in _related(session)]
        tally = _raced(problems, session, policy, times)
        if tally.problems:
            click.echo("\n".join((f"{file.stem:16} {tally}", *related)))


def _related(session: Session) -> list[str]:
    """Return the related devices of which the session has records."""
    target = session.target
    return [one for one in session.database.devices() if kinship(one, target) is not None]


def _likeness(
    problems: list[tuple[int, ConvProblem]], session: Session, times: Times, other: str
) -> str:
    """Say how much ratios and winners on another device are those of this one."""
    ratios, paid, least, seen = [], 0.0, 0.0, 0
    for count, problem in problems:
        here, there = times(session.target.identity, problem), session.times(other, problem)
        both = [name for name in there if name in here]
        if not both:
            continue
        seen += 1
        paid += count * here[min(both, key=there.__getitem__)]
        least += count * min(here[name] for name in both)
        for one, two in itertools.combinations(both, 2):
            ratio = math.log(there[one] / there[two])
            if abs(ratio) <= math.log(_CLOSE):
                ratios.append(math.log(here[one] / here[two]) - ratio)
    kind, name = kinship(other, session.target), other.split("|")[2]
    if not seen:
        return f"    {name} ({kind}): none of these problems"
    error = math.sqrt(statistics.fmean(one * one for one in ratios)) if ratios else 0.0
    return (
        f"    {name} ({kind}): {seen} problems, {len(ratios)} pairs of solvers, ratios off by "
        f"{error:.3f}, its first choices lose {paid / least:.4f}"
    )


def _raced(
    problems: list[tuple[int, ConvProblem]], session: Session, policy: Policy, times: Times
) -> Tally:
    """Race one problem after the other."""
    tally, identity = Tally(), session.target.identity
    timed = [(count, problem) for count, problem in problems if times(identity, problem)]
    began = time.perf_counter()
    repeated = [problem for count, problem in timed for _ in range(count)]
    tally.ready |= set(first_programs(repeated, session, policy))
    for count, problem in timed:
        took = times(identity, problem)
        candidates = screen(problem, session, policy).candidates
        solvers = [one for one in candidates if versioned_id(one) in took]
        if not solvers:
            continue
        programs = {
            solver.solver_id: frozenset(asking.recipe(solver, problem, session.target).programs)
            for solver in solvers
        }
        unknown = replace(session, database=FindDb.open(None))
        first = estimate(problem, unknown, policy, Screening(tuple(solvers))).solutions[0].solver
        facts = known_about(problem, session, solvers, policy)
        ran = _race(facts, session.favoured.get(problem), solvers, programs, took, tally.ready)
        learn(session.lessons, problem, facts.uncorrected, ran)
        session.database.store(session.target, problem, _entry(solvers, ran))
        tally.programs |= frozenset().union(*programs.values())
        tally.problems += 1
        tally.measured += len(solvers)
        tally.raced += len(ran)
        tally.paid += count * min(ran.values())
        tally.first += count * took[versioned_id(session.registry.solver(first))]
        tally.least += count * min(took[versioned_id(solver)] for solver in solvers)
    tally.programs |= tally.ready
    tally.seconds = time.perf_counter() - began
    return tally


def _race(
    facts: Known,
    favoured: frozenset[str] | None,
    solvers: list[Solver],
    programs: dict[str, frozenset[Program]],
    took: Mapping[str, float],
    ready: set[Program],
) -> dict[str, float]:
    """Return the times of those who run, by solver id; their programs are ready from now on."""

    def margin(solver: Solver) -> float:
        if programs[solver.solver_id] <= ready:
            return READY_MARGIN
        is_favoured = favoured is None or solver.solver_id in favoured
        return COMPILED_MARGIN if is_favoured else DECLINED_MARGIN

    race = Race(facts, margin)
    waiting, ran = race.order(solvers), dict[str, float]()
    while waiting:
        able, _ = race.contenders(waiting, ran)
        able = able or ([] if ran else waiting)
        if not able:
            break
        able = [one for one in able if programs[one.solver_id] <= ready] or able
        for solver in able:
            if not ran or race.contenders([solver], ran)[0]:
                ran[solver.solver_id] = took[versioned_id(solver)]
            ready |= programs[solver.solver_id]
        waiting = [solver for solver in waiting if solver not in able]
    return ran


def _entry(solvers: list[Solver], ran: Mapping[str, float]) -> FindEntry:
    """Return the record that a find would make."""
    ranked = sorted(
        (one for one in solvers if one.solver_id in ran), key=lambda s: ran[s.solver_id]
    )
    records = tuple(
        FindRecord(
            solver=solver.solver_id,
            solver_version=solver.version,
            package="",
            algorithm=solver.algorithm,
            time_ms=ran[solver.solver_id],
        )
        for solver in ranked
    )
    return FindEntry(records=records, considered=tuple(map(versioned_id, ranked)))


# -- devices, times and problems ------------------------------------------------------------------


def _of_device(name: str | None) -> Session:
    with convfind.open(name) as handle:
        return _session(handle.session.target, handle.session.registry)


def _of_target(file: Path) -> Session:
    target = msgspec.json.decode(file.read_bytes(), type=Target)
    registry = Registry.build()
    registry.heuristics = tuple(
        one for one in registry.heuristics if target.identity not in getattr(one, "devices", ())
    )
    return _session(target, registry)


def _session(target: Target, registry: Registry) -> Session:
    """A session in which nothing can run, with an empty database."""
    return Session.elsewhere(target, registry, BinaryStore.open(None))


def _times(sources: tuple[Path, ...]) -> Times:
    """Return what looks times up: in a database, or in exported files, whose median counts."""
    if sources[0].is_dir():
        return FindDb.open(sources[0]).times
    found: dict[str, dict[str, list[float]]] = {}
    for source in sources:
        with bz2.open(source, "rt") as lines:
            for line in lines:
                entry = json.loads(line)
                for record in entry.get("records", ()) if entry["table"] == "find" else ():
                    if not record["constant_weights"]:
                        name = f"{record['solver']}@{record['solver_version']}"
                        by_solver = found.setdefault(entry["key"].partition("|")[2], {})
                        by_solver.setdefault(name, []).append(record["time_ms"])

    def times(identity: str, problem: ConvProblem) -> Mapping[str, float]:
        by_solver = found.get(f"{identity}|{problem.key}", {})
        return {name: statistics.median(measured) for name, measured in by_solver.items()}

    return times


def problems_of(layers: Path, batch: int) -> Iterator[tuple[int, ConvProblem]]:
    """Yield each layer in each direction, with how often the network has it."""
    counts: dict[str, int] = {}
    for layer in {layer.line_number: layer for layer in read_layer_file(layers)}.values():
        for direction in Direction:
            problem = layer.problem.with_batch(batch).with_direction(direction).plain()
            counts[problem.key] = counts.get(problem.key, 0) + layer.count
    for key, count in counts.items():
        yield count, ConvProblem.from_key(key)


if __name__ == "__main__":
    main()
