"""Heuristic models of the installed solvers: problems to measure, and scores on unseen networks.

    python benchmarks/heuristics_own.py problems FOLDER --count 3000 --most-gmacs 2 > problems.txt
    convfind tune run problems.txt --to tuned
    python benchmarks/heuristics_own.py score tuned benchmarks/layers/*.txt [--seed 0] [--json]

FOLDER holds MIOpen's *.fdb.txt.bz2; of each shape family at most one problem is drawn from them.
`tune run` takes layer files beside it, which belong into the data: give them with --direction all.
`score` holds out each network in turn, with every problem of its shape families, trains on the
rest, and compares with the weighted throughput index, which is asked of the solvers here: run it on
the machine that measured.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

import convfind
from convfind.heuristics.features import SIZES
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.problem_text.layer_file import read_layer_file
from convfind.solver import versioned_id
from convfind_finddb_tools.heuristics.dataset import Dataset, read_dataset
from convfind_finddb_tools.heuristics.evaluation import evaluate
from convfind_finddb_tools.heuristics.family import family_of
from convfind_finddb_tools.heuristics.training import Recipe, train

_SHOWN = ("problems", "top1", "within5pct", "geomean_slowdown", "p95_slowdown", "p99_slowdown")
_PATH = click.Path(path_type=Path, exists=True)


@click.group()
def main() -> None:
    """Collect problems, and score models of the installed solvers."""


@main.command()
@click.argument("folder", type=_PATH)
@click.option("--count", default=3000, show_default=True, help="How many at most.")
@click.option("--most-gmacs", default=20.0, show_default=True, help="Work of a problem at most.")
@click.option("--seed", default=0, show_default=True)
def problems(folder: Path, count: int, most_gmacs: float, seed: int) -> None:
    """Draw problems from find databases, and print their keys."""
    dataset = read_dataset(sorted(folder.glob("*.fdb.txt.bz2")))
    order = np.random.default_rng(seed).permutation(len(dataset))
    flat = dataset.rows[:, SIZES.index("spatial_rank")] == 2  # most 3-D ones are these again
    families: set[int] = set()
    for number in order[flat[order]].tolist():
        family = int(dataset.family[number])
        if family in families:
            continue
        families.add(family)
        problem = ConvProblem.from_key(str(dataset.texts[number]))
        if problem.macs <= most_gmacs * 1e9:
            click.echo(problem.key)
            count -= 1
        if not count:
            return


@main.command()
@click.argument("data", type=_PATH)
@click.argument("networks", nargs=-1, required=True, type=_PATH)
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def score(data: Path, networks: Sequence[Path], seed: int, as_json: bool) -> None:
    """Train without each network, and score on it."""
    dataset = read_dataset([data])
    found = {network.stem: _without(dataset, network, seed) for network in networks}
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for network, devices in found.items():
        for device, scores in devices.items():
            click.echo(f"{network} on {device}")
            for name, value in scores.items():
                click.echo(f"  {name:20} {value:12.4f}")


def _without(dataset: Dataset, network: Path, seed: int) -> dict[str, dict[str, Any]]:
    """Scores by device on the problems of a network's shape families."""
    families = {family_of(layer.problem.plain()) for layer in read_layer_file(network)}
    unseen = np.isin(dataset.family, np.array(sorted(families), np.uint64))
    model = train(dataset.select(~unseen), Recipe(seed=seed, held_out=0.0))
    part = dataset.select(unseen)
    result = {}
    for device, scores in evaluate(model, part).items():
        result[device] = {name: getattr(scores, name) for name in _SHOWN}
        result[device] |= _throughput_index(part.on_device(device), device)
    return result


def _throughput_index(part: Dataset, device: str) -> dict[str, float]:
    """The slowdown of choosing by the index, among the solvers that a record holds."""
    registry = default_registry()
    targets = [target for _, target in convfind.devices().devices if target.identity == device]
    if not targets:
        return {}
    solvers = {versioned_id(solver): solver for solver in registry.solvers_for(targets[0])[0]}
    names = [name for name in part.solvers if name in solvers]
    slowdowns = []
    for text, times in zip(part.texts.tolist(), part.log_times(names), strict=True):
        measured = np.flatnonzero(np.isfinite(times))
        if not len(measured):
            continue
        problem = ConvProblem.from_key(text)
        indices = [solvers[names[place]].wti(problem, targets[0]) or 0.0 for place in measured]
        slowdowns.append(times[measured[int(np.argmax(indices))]] - times.min())
    return {"geomean_slowdown_wti": float(np.exp(np.mean(slowdowns)))} if slowdowns else {}


if __name__ == "__main__":
    main()
