"""Heuristic models of the installed solvers: data, models, and scores on unseen networks.

    python benchmarks/heuristics_own.py run FOLDER/*.fdb.txt.bz2 --to tuned --budget 8h

does all of it: `collect` measures, `score` holds out networks, and a model is written beside the
data. A SOURCE is MIOpen's *.fdb.txt.bz2, or what `convfind tune run` takes, such as a log with
driver lines; at most one problem of each shape family is drawn from them. Networks are the layer
files of a folder, whose layers are taken in all directions. Problems come in the order of a
shuffle, so that whatever a budget leaves room for is a fair sample, and the same command goes on
where it was interrupted. `score` holds out each network in turn, with every problem of its shape
families, trains on the rest, and compares with the weighted throughput index, which is asked of
the solvers here: run it on the machine that measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

import convfind
from convfind.heuristics.features import SIZES
from convfind.heuristics.model_file import write_model
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.problem_text.layer_file import read_layer_file
from convfind.solver import versioned_id
from convfind.types import DataType, Direction
from convfind_finddb_tools.cli.tune_options import seconds
from convfind_finddb_tools.heuristics.dataset import Dataset, read_dataset
from convfind_finddb_tools.heuristics.evaluation import evaluate
from convfind_finddb_tools.heuristics.family import family_of
from convfind_finddb_tools.heuristics.training import Recipe, train
from convfind_finddb_tools.tune.sources import read_source

_SHOWN = ("problems", "top1", "within5pct", "geomean_slowdown", "p95_slowdown", "p99_slowdown")
_PATH = click.Path(path_type=Path, exists=True)
_LAYERS = Path(__file__).parent / "layers"
_PART = 50  # problems of one `tune run`, which begins with the most expensive of those it is given
_BUDGET_SPENT = 3  # exit code of `tune run`
_FAILED = 1  # and where problems failed, which are no reason to stop


@click.group()
def main() -> None:
    """Collect data, and train and score models of the installed solvers."""


def _takes_collection(function: Any) -> Any:
    for option in reversed(
        (
            click.argument("sources", nargs=-1, type=_PATH),
            click.option("--networks", default=_LAYERS, type=_PATH, help="Folder of layer files."),
            click.option("--to", "data", required=True, type=click.Path(path_type=Path)),
            click.option("--budget", required=True, callback=seconds, help="Time: 30m, 8h."),
            click.option("--problem-budget", default="20s", show_default=True),
            click.option("--device", help="Such as opencl:cpu.  [CONVFIND_DEVICE, else the best]"),
            click.option("--count", default=3000, show_default=True, help="Problems at most."),
            click.option("--most-gmacs", default=2.0, show_default=True, help="Of one problem."),
            click.option("-n", "--batch", "batches", multiple=True, default=(1, 16), type=int),
            click.option("--dtype", "dtypes", multiple=True, default=("float32",)),
            click.option("--seed", default=0, show_default=True),
        )
    ):
        function = option(function)
    return function


@main.command("collect")
@_takes_collection
def collect_command(**options: Any) -> None:
    """Measure every solver on problems drawn from sources, until the budget is spent."""
    collect(**options)


@main.command()
@_takes_collection
def run(networks: Path, data: Path, seed: int, **options: Any) -> None:
    """Collect, score on held-out networks, and write a model into DATA/model.npz."""
    collect(networks=networks, data=data, seed=seed, **options)
    for network, scores in _scored(data, _layer_files(networks), seed).items():
        click.echo(json.dumps({"network": network, "devices": scores}))
    model = train(read_dataset([data]), Recipe(seed=seed))
    write_model(data / "model.npz", model)
    click.echo(json.dumps(dict(model.training.scores)))


def collect(
    *,
    sources: Sequence[Path],
    networks: Path,
    data: Path,
    budget: float,
    problem_budget: str,
    device: str | None,
    count: int,
    most_gmacs: float,
    batches: Sequence[int],
    dtypes: Sequence[str],
    seed: int,
) -> None:
    """Measure in parts, by the program: what is finished stays finished, whatever happens."""
    end = time.monotonic() + budget
    data.mkdir(parents=True, exist_ok=True)
    listed = data / "problems.txt"
    if not listed.exists():
        types = {DataType(name) for name in dtypes}
        problems = _draw(sources, networks, count, most_gmacs * 1e9, batches, types, seed)
        listed.write_text("".join(f"{problem.key}\n" for problem in problems))
    keys = listed.read_text().splitlines()
    part = data / "part.txt"
    chosen = ["--device", device] if device else []
    for start in range(0, len(keys), _PART):
        left = end - time.monotonic()
        if left <= 0:
            break
        part.write_text("\n".join(keys[start : start + _PART]))
        words = ["tune", "run", str(part), "--to", str(data), *chosen]
        words += ["--budget", f"{left:.0f}", "--problem-budget", problem_budget]
        code = subprocess.run([sys.executable, "-m", "convfind", *words], check=False).returncode
        if code == _BUDGET_SPENT:
            break
        if code not in (0, _FAILED):
            raise SystemExit(code)


def _draw(
    sources: Sequence[Path],
    networks: Path,
    count: int,
    most_macs: float,
    batches: Sequence[int],
    dtypes: set[DataType],
    seed: int,
) -> list[ConvProblem]:
    """All layers of layer files; of the other sources at most one problem of each family."""
    generator = np.random.default_rng(seed)
    layers = {
        problem.key: problem
        for path in _layer_files(networks)
        for layer in read_layer_file(path)
        for batch in batches
        for direction in Direction
        for problem in [layer.problem.plain().with_batch(batch).with_direction(direction)]
        if problem.macs <= most_macs and problem.dtype in dtypes
    }
    families = {family_of(problem) for problem in layers.values()}
    drawn = list(layers.values())
    others = list(_others(sources))
    for number in generator.permutation(len(others)).tolist():
        if len(drawn) >= count:
            break
        problem = others[number].plain()
        fits = problem.macs <= most_macs and problem.dtype in dtypes
        if fits and (family := family_of(problem)) not in families:
            families.add(family)
            drawn.append(problem)
    return [drawn[number] for number in generator.permutation(len(drawn))[:count].tolist()]


def _layer_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.txt"))


def _others(sources: Sequence[Path]) -> Iterator[ConvProblem]:
    """The problems of find databases, logs and lists."""
    databases = [path for path in sources if ".fdb.txt" in path.name]
    for path in sources:
        if path not in databases:
            yield from (found.problem for found in read_source(path, {}, None).found)
    if databases:
        dataset = read_dataset(databases)
        flat = dataset.rows[:, SIZES.index("spatial_rank")] == 2  # most 3-D ones are these again
        yield from map(ConvProblem.from_key, map(str, dataset.texts[flat]))


@main.command()
@click.argument("data", type=_PATH)
@click.option("--networks", default=_LAYERS, type=_PATH, help="Folder of layer files.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def score(data: Path, networks: Path, seed: int, as_json: bool) -> None:
    """Train without each network, and score on it."""
    found = _scored(data, _layer_files(networks), seed)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for network, devices in found.items():
        for device, scores in devices.items():
            click.echo(f"{network} on {device}")
            for name, value in scores.items():
                click.echo(f"  {name:20} {value:12.4f}")


def _scored(
    data: Path, networks: Sequence[Path], seed: int
) -> dict[str, dict[str, dict[str, Any]]]:
    """Scores by network and device."""
    dataset = read_dataset([data])
    return {network.stem: _without(dataset, network, seed) for network in networks}


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
