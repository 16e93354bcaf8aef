"""Races run again by the times of exhaustive finds: who would be compiled, and what that loses.

    python benchmarks/race.py benchmarks/layers/resnet50.txt -n 4 --device opencl:cpu --times FOLDER

FOLDER is a user's database with `convfind bench FILE --mode normal` in it, for the same layers and
device. Nothing runs: each layer is raced as a find with an empty database would, the candidates
take the times in FOLDER, and what a race has compiled is ready in those that follow.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

import convfind
from convfind.find.known import known
from convfind.find.race import Race
from convfind.find.screening import screen
from convfind.finddb import FindDb
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.problem.text.layer_file import read_layer_file
from convfind.runtime.session import Session
from convfind.settings import Settings
from convfind.solver import Solver, asking, versioned_id
from convfind.solver.kernel_spec import Program
from convfind.types import Direction


@click.command()
@click.argument("layers", type=click.Path(path_type=Path, exists=True))
@click.option("-n", "--batch", required=True, type=int)
@click.option("--device", help="Such as opencl:cpu.  [CONVFIND_DEVICE, else the best]")
@click.option("--times", required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--fallback", default="ai", type=click.Choice(("ai", "wti")), help="wti: no models.")
def main(layers: Path, batch: int, device: str | None, times: Path, fallback: str) -> None:
    """Race LAYERS, and compare with measuring everybody."""
    ready, everything = set[Program](), set[Program]()
    raced = measured = problems = 0
    paid = least = seconds = 0.0
    policy = Policy().with_changes(fallback=fallback)
    with (
        tempfile.TemporaryDirectory() as folder,
        convfind.open(device, settings=Settings(user_db_path=Path(folder))) as handle,
        FindDb.open(times) as truth,
    ):
        session = handle.session
        for count, problem in _problems(layers, batch):
            took = truth.times(session.target.identity, problem)
            candidates = screen(problem, session, policy).candidates
            solvers = [one for one in candidates if versioned_id(one) in took]
            if not solvers:
                continue
            began = time.perf_counter()
            programs = {
                solver.solver_id: frozenset(asking.recipe(solver, problem, session.target).programs)
                for solver in solvers
            }
            ran = _race(problem, session, policy, solvers, programs, took, ready)
            seconds += time.perf_counter() - began
            everything |= frozenset().union(*programs.values())
            problems, measured, raced = problems + 1, measured + len(solvers), raced + len(ran)
            paid += count * min(ran.values())
            least += count * min(took[versioned_id(solver)] for solver in solvers)
    click.echo(f"problems   {problems}")
    click.echo(f"compiled   {len(ready)} programs of {len(everything)}")
    click.echo(f"measured   {raced} solvers of {measured}")
    click.echo(f"loss       {paid / least:.4f}")
    click.echo(f"forecasts  {1e3 * seconds / problems:.2f} ms for each problem")


def _race(
    problem: ConvProblem,
    session: Session,
    policy: Policy,
    solvers: list[Solver],
    programs: dict[str, frozenset[Program]],
    took: dict[str, float],
    ready: set[Program],
) -> dict[str, float]:
    """Return the times of those who run, by solver id; their programs are ready from now on."""
    facts = known(problem, session, solvers, policy)
    race = Race(facts, lambda solver: programs[solver.solver_id] <= ready)
    waiting, ran = race.order(solvers), dict[str, float]()
    while waiting:
        able, _ = race.contenders(waiting, ran)
        if not able:
            break
        for solver in able:
            if not ran or race.contenders([solver], ran)[0]:
                ran[solver.solver_id] = took[versioned_id(solver)]
            ready |= programs[solver.solver_id]
        waiting = [solver for solver in waiting if solver not in able]
    return ran


def _problems(layers: Path, batch: int) -> Iterator[tuple[int, ConvProblem]]:
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
