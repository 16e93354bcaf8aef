"""What finds lose: the solvers that databases name as the fastest, timed against each other.

    python benchmarks/loss.py benchmarks/layers/resnet50.txt -n 4 --device opencl:0 FOLDER ...

Each FOLDER is a user's database in which the same layers were found in every direction, on this
device: by races, by finds in mode NORMAL. Times that were recorded one after the other are as
uncertain as the machine is noisy, and the least of them is so by chance. So whoever any database
has within 1.15 times its own fastest runs here, as in a find's final: in turns, for many rounds, on
data that no cache keeps. The loss of a database is the time of the network by the solvers that it
names first, over that by the fastest here. Where all name the same and nobody else is close,
nothing runs and nothing is lost.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

import convfind
from convfind.checking.workbench import Candidate, Workbench
from convfind.finddb import FindDb, FindRecord
from convfind.problem import ConvProblem
from convfind.runtime.session import Session
from convfind.solver import asking
from convfind.solver.config import Config
from race import problems_of

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
#: Solvers within this multiple of a database's fastest run here.
_CLOSE = 1.15
#: Losses that are printed for each layer.
_TOLD = 1.01

#: A solver and its config, as texts.
Choice = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Layer:
    """One problem: how often the network has it, who was timed, and whom databases name first."""

    problem: ConvProblem
    count: int
    times: dict[Choice, float]
    named: tuple[Choice, ...]

    @property
    def least(self) -> float:
        """The time of the fastest in ms."""
        return min(self.times.values())


@click.command()
@click.argument("layers", type=_FILE)
@click.argument("databases", type=_FOLDER, nargs=-1, required=True)
@click.option("-n", "--batch", required=True, type=int)
@click.option("--device", help="Such as opencl:cpu.  [CONVFIND_DEVICE, else the best]")
@click.option("--rounds", default=40, show_default=True, help="For everybody.")
def main(
    layers: Path, databases: tuple[Path, ...], batch: int, device: str | None, rounds: int
) -> None:
    """Time whom databases name, and print what each of them loses."""
    with convfind.open(device) as handle:
        session = handle.session
        found = list(_timed(list(problems_of(layers, batch)), session, databases, rounds))
    for layer in found:
        lost = [layer.times[name] / layer.least for name in layer.named]
        if max(lost) >= _TOLD:
            click.echo(f"{layer.count:2d} x {layer.problem.key}, {layer.least:.4g} ms")
            for place, name in enumerate(layer.named):
                click.echo(f"    {databases[place].name:12} {lost[place]:.3f}  {' '.join(name)}")
    least = sum(layer.count * layer.least for layer in found)
    for place, folder in enumerate(databases):
        paid = sum(layer.count * layer.times[layer.named[place]] for layer in found)
        click.echo(f"{folder.name:12} loss {paid / least:.4f} in {len(found)} problems")


def _timed(
    problems: Sequence[tuple[int, ConvProblem]],
    session: Session,
    folders: Sequence[Path],
    rounds: int,
) -> Iterator[Layer]:
    """Time each problem that every database has."""
    opened = [FindDb.open(folder) for folder in folders]
    for count, problem in problems:
        close: dict[Choice, FindRecord] = {}
        named = []
        for database in opened:
            stored = database.lookup(session.target, problem)
            if stored is None:
                break
            records = stored.entry.records
            named.append(_choice(records[0]))
            for record in records:
                if record.time_ms <= _CLOSE * records[0].time_ms:
                    close.setdefault(_choice(record), record)
        else:
            times = (
                _in_turns(problem, session, close, rounds)
                if len(close) > 1
                else {name: record.time_ms for name, record in close.items()}
            )
            yield Layer(problem, count, times, tuple(named))
    for database in opened:
        database.close()


def _in_turns(
    problem: ConvProblem, session: Session, records: dict[Choice, FindRecord], rounds: int
) -> dict[Choice, float]:
    """Return the median of each, in ms; a round is as fast as the typical one."""
    bench = Workbench(problem, session, constant_weights=False)
    bench.make_ready(verify=False)
    candidates = {name: _candidate(bench, problem, session, r) for name, r in records.items()}
    for candidate in candidates.values():
        candidate.sample()
    order, table = [*candidates], []
    for _ in range(rounds):
        table.append({name: candidates[name].sample() for name in order})
        order = [*order[1:], order[0]]  # nobody always runs behind the same one
    means = [statistics.fmean(row.values()) for row in table]
    typical = statistics.median(means)
    return {
        name: statistics.median(
            row[name] * typical / mean for row, mean in zip(table, means, strict=True)
        )
        for name in candidates
    }


def _candidate(
    bench: Workbench, problem: ConvProblem, session: Session, record: FindRecord
) -> Candidate:
    solver = session.registry.solver(record.solver)
    config = None if record.config is None else Config(record.config)
    recipe = asking.recipe(solver, problem, session.target, config)
    return bench.candidate(recipe, session.kernels.load_or_raise(recipe.programs))


def _choice(record: FindRecord) -> Choice:
    config = "" if record.config is None else json.dumps(dict(record.config), sort_keys=True)
    return record.solver, config


if __name__ == "__main__":
    main()
