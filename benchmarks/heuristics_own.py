"""Heuristic models of the installed solvers: data, models, and scores on unseen networks.

    python benchmarks/heuristics_own.py draw FOLDER/*.fdb.txt.bz2 --to problems.txt
    python benchmarks/heuristics_own.py collect problems.txt --to tuned --budget 8h
    python benchmarks/heuristics_own.py model tuned --to model.npz
    python benchmarks/heuristics_own.py index tuned
    python benchmarks/heuristics_own.py agree tuned again

`draw` lists problems: the layers of networks, in all directions, then at most one problem of each
shape family of the SOURCES, which are MIOpen's *.fdb.txt.bz2 or what `convfind tune run` takes, and
of problems made of sizes that are usual in networks.
Each of the two is shuffled, so that whatever a budget leaves room for is a fair sample. `collect`
measures every solver on them, and goes on where it was interrupted; after solvers have changed it
measures those that have. `model` holds out each network in turn, with every problem of its shape
families, trains on the rest, scores the whole and each layout, and compares with the weighted
throughput index; then it trains the model. Models that saw four fifths of the families each say in
which regions the index chooses better: there the model refuses, and the index answers. `model` does
not need the device that measured. `index` scores the index alone, on all problems. `agree` compares
two measurements of the same problems: who chooses by one of them, and pays by the other, is as good
as can be.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
import msgspec
import numpy as np

import convfind
from convfind.device.target import Target
from convfind.heuristics.features import SIZES
from convfind.heuristics.model_file import Model, write_model
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.problem.text.layer_file import read_layer_file
from convfind.solver import versioned_id
from convfind.types import DataType, Direction, Layout
from convfind_finddb_tools.cli.tune_options import seconds
from convfind_finddb_tools.heuristics.dataset import Dataset, read_dataset
from convfind_finddb_tools.heuristics.evaluation import evaluate, first_choices
from convfind_finddb_tools.heuristics.family import family_of
from convfind_finddb_tools.heuristics.regions import Costs, unseen_choices, weak_regions
from convfind_finddb_tools.heuristics.teaching import Teaching
from convfind_finddb_tools.heuristics.training import Recipe, train
from convfind_finddb_tools.tune.sources import read_source
from made_problems import rare_problems, usual_problems

_SHOWN = (
    *("problems", "not_applicable", "top1", "within5pct"),
    *("geomean_slowdown", "p95_slowdown", "p99_slowdown"),
)
_INDEX = ("with_index_slowdown", "index_slowdown", "index_p95")
_PATH = click.Path(path_type=Path, exists=True)
_NEW = click.Path(path_type=Path)
_LAYERS = Path(__file__).parent / "layers"
_TARGET = "target.json"
_BUDGET_SPENT = 3  # exit code of `tune run`
_FAILED = 1  # and where problems failed, which are no reason to stop


@click.group()
def main() -> None:
    """Draw problems, collect data, and train and score models of the installed solvers."""


@main.command()
@click.argument("sources", nargs=-1, type=_PATH)
@click.option("--networks", default=_LAYERS, type=_PATH, help="Folder of layer files.")
@click.option("--to", "listed", required=True, type=_NEW)
@click.option("--count", default=3000, show_default=True, help="Problems at most.")
@click.option("--made", default=0, show_default=True, help="Problems of usual sizes, besides.")
@click.option("--rare", default=0, show_default=True, help="Problems of rarer kinds, besides.")
@click.option("--most-gmacs", default=2.0, show_default=True, help="Of one problem.")
@click.option("--most-mb", default=1000.0, show_default=True, help="Of its tensors together.")
@click.option("-n", "--batch", "batches", multiple=True, default=(1, 16), type=int)
@click.option("--channels-last", default=0.0, show_default=True, help="Share of the problems.")
@click.option("--dtype", "dtypes", multiple=True, default=("float32",))
@click.option("--most-groups", default=2**31 - 1, help="Leave problems of more groups out.")
@click.option("--seed", default=0, show_default=True)
def draw(
    sources: tuple[Path, ...],
    networks: Path,
    listed: Path,
    count: int,
    made: int,
    rare: int,
    most_gmacs: float,
    most_mb: float,
    batches: tuple[int, ...],
    channels_last: float,
    dtypes: tuple[str, ...],
    most_groups: int,
    seed: int,
) -> None:
    """List problems: those of networks, then of other SOURCES, of which too large a batch is halved
    until the problem fits.
    """
    generator = np.random.default_rng(seed)
    types = {DataType(name) for name in dtypes}

    def fits(problem: ConvProblem) -> bool:
        elements = sum(map(math.prod, (problem.x_shape, problem.w_shape, problem.y_shape)))
        small = problem.macs <= most_gmacs * 1e9 and elements * problem.dtype.size <= most_mb * 1e6
        return small and problem.dtype in types and problem.groups <= most_groups

    layers = [problem for problem in _layers(networks, batches) if fits(problem)]
    drawn = [layers[number] for number in generator.permutation(len(layers)).tolist()][:count]
    families = {family_of(problem) for problem in drawn}
    others = [
        *_others(sources),
        *usual_problems(made, batches, generator),
        *rare_problems(rare, batches, generator),
    ]
    for number in generator.permutation(len(others)).tolist():
        if len(drawn) >= count:
            break
        problem = others[number].plain()
        while problem.x_shape[0] > 1 and not fits(problem):
            problem = problem.with_batch(problem.x_shape[0] // 2)
        if fits(problem) and (family := family_of(problem)) not in families:
            families.add(family)
            drawn.append(problem)
    last = generator.random(len(drawn)) < channels_last
    problems = [
        _channels_last(problem) if flag else problem
        for problem, flag in zip(drawn, last.tolist(), strict=True)
    ]
    listed.write_text("".join(f"{problem.key}\n" for problem in problems))


def _layers(networks: Path, batches: Sequence[int]) -> list[ConvProblem]:
    """The different layers of all layer files, in all directions."""
    found = {
        problem.key: problem
        for path in _layer_files(networks)
        for layer in read_layer_file(path)
        for batch in batches
        for direction in Direction
        for problem in [layer.problem.plain().with_batch(batch).with_direction(direction)]
    }
    return list(found.values())


def _channels_last(problem: ConvProblem) -> ConvProblem:
    layout = Layout.of(problem.spatial_rank, channels_last=True)
    return replace(problem, x_layout=layout, w_layout=layout, y_layout=layout)


@main.command()
@click.argument("listed", type=_PATH)
@click.option("--to", "data", required=True, type=_NEW)
@click.option("--budget", required=True, callback=seconds, help="Time: 30m, 8h.")
@click.option("--problem-budget", default="20s", show_default=True)
@click.option("--device", help="Such as opencl:cpu.  [CONVFIND_DEVICE, else the best]")
@click.option("--workers", default=0, show_default=True, help="As of `convfind tune run`.")
@click.option("--compilers", type=int, help="As of `convfind tune run`.")
@click.option("--part", default=50, show_default=True, help="Problems of one `tune run`.")
@click.option("--quick", is_flag=True, help="As of `convfind tune run`.")
def collect(
    listed: Path,
    data: Path,
    budget: float,
    problem_budget: str,
    device: str | None,
    workers: int,
    compilers: int | None,
    part: int,
    quick: bool,
) -> None:
    """Measure every solver on problems of a list, until the budget is spent.

    In parts, since a run begins with the most expensive problems that it is given.
    """
    end = time.monotonic() + budget
    data.mkdir(parents=True, exist_ok=True)
    with convfind.open(device) as handle:
        (data / _TARGET).write_bytes(msgspec.json.encode(handle.target))
    keys = listed.read_text().splitlines()
    problems = data / "part.txt"
    chosen = ["--device", device] if device else []
    chosen += ["--workers", str(workers)] if workers else []
    chosen += ["--compilers", str(compilers)] if compilers is not None else []
    chosen += ["--quick"] if quick else []
    for start in range(0, len(keys), part):
        left = end - time.monotonic()
        if left <= 0:
            break
        problems.write_text("\n".join(keys[start : start + part]))
        words = ["tune", "run", str(problems), "--to", str(data), *chosen]
        words += ["--budget", f"{left:.0f}s", "--problem-budget", problem_budget]
        code = subprocess.run([sys.executable, "-m", "convfind", *words], check=False).returncode
        if code == _BUDGET_SPENT:
            break
        if code not in (0, _FAILED):
            raise SystemExit(code)


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
@click.argument("data", nargs=-1, required=True, type=_PATH)
@click.option("--networks", default=_LAYERS, type=_PATH, help="Folder of layer files.")
@click.option("--to", "file", required=True, type=_NEW)
@click.option("--with-older", is_flag=True, help="Estimate from older versions what is missing.")
@click.option("--most-groups", default=2**31 - 1, help="Leave problems of more groups out.")
@click.option("--teachers", default=0, show_default=True, help="Large networks that teach.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def model(
    data: tuple[Path, ...],
    networks: Path,
    file: Path,
    with_older: bool,
    most_groups: int,
    teachers: int,
    seed: int,
    as_json: bool,
) -> None:
    """Train without each network and score on it, then train the model.

    Of times in several of DATA the mean counts.
    """
    dataset = read_dataset(data, with_older=with_older)
    dataset = dataset.select(dataset.rows[:, SIZES.index("groups")] <= most_groups)
    target = _target(data[0], dataset)
    recipe = Recipe(seed=seed, teaching=Teaching.by(teachers))
    index = _index_costs(dataset, target)
    unseen = unseen_choices(dataset, recipe)
    found: dict[str, dict[str, float]] = {}
    for path in _layer_files(networks):
        found |= _without(dataset, path, recipe, unseen, index)
    trained = train(dataset, recipe, weak=weak_regions(dataset, unseen, index))
    write_model(file, trained)
    found["held-out families"] = {
        name: trained.training.scores[target.identity][name] for name in _SHOWN
    }
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    names = (*_SHOWN, *_INDEX)
    click.echo(f"{'':32}" + "".join(f"{name:>22}" for name in names))
    for network, scores in found.items():
        cells = "".join(f"{scores[name]:>22.4f}" for name in names if name in scores)
        click.echo(f"{network:32}{cells}")


@main.command()
@click.argument("data", nargs=-1, required=True, type=_PATH)
def index(data: tuple[Path, ...]) -> None:
    """Choose by the throughput index, and pay by the times of DATA, of which the mean counts."""
    dataset = read_dataset(data)
    costs = _index_costs(dataset, _target(data[0], dataset))
    costs = costs[np.isfinite(costs)]
    click.echo(f"problems          {len(costs)}")
    click.echo(f"geomean slowdown  {np.exp(costs.mean()):.4f}")
    click.echo(f"p95 slowdown      {np.exp(np.quantile(costs, 0.95)):.4f}")


@main.command()
@click.argument("data", type=_PATH)
@click.argument("again", type=_PATH)
@click.option("--most-groups", default=2**31 - 1, help="Leave problems of more groups out.")
def agree(data: Path, again: Path, most_groups: int) -> None:
    """Choose by the times of DATA, and pay by those of AGAIN, on the problems of both."""
    first, second = read_dataset([data]), read_dataset([again])
    names = sorted({*first.solvers} & {*second.solvers})
    tables = [
        {
            text: times
            for text, times, groups in zip(
                part.texts.tolist(),
                part.log_times(names),
                part.rows[:, SIZES.index("groups")],
                strict=True,
            )
            if groups <= most_groups
        }
        for part in (first, second)
    ]
    both = sorted(tables[0].keys() & tables[1].keys())
    old, new = (np.array([table[text] for text in both]) for table in tables)
    common = np.isfinite(old) & np.isfinite(new)
    several = common.sum(axis=1) > 1
    old, new = (np.where(common, times, np.inf)[several] for times in (old, new))
    paid = new[np.arange(len(new)), old.argmin(axis=1)] - new.min(axis=1)
    apart = np.abs(old[common[several]] - new[common[several]])
    click.echo(f"problems          {len(paid)}")
    click.echo(f"same fastest      {(paid == 0).mean():.4f}")
    click.echo(f"geomean slowdown  {np.exp(paid.mean()):.4f}")
    click.echo(f"p95 slowdown      {np.exp(np.quantile(paid, 0.95)):.4f}")
    click.echo(f"times differ by   {np.expm1(np.median(apart)):.4f} (median)")


def _without(
    dataset: Dataset, network: Path, recipe: Recipe, unseen: Costs, index: Costs
) -> dict[str, dict[str, float]]:
    """Scores on the problems of a network's shape families, where there are any; if they are of two
    layouts, of each by itself too.

    What choosing ``unseen`` problems and by the index costs says where the model is weak.
    """
    families = {family_of(layer.problem.plain()) for layer in read_layer_file(network)}
    chosen = np.isin(dataset.family, np.array(sorted(families), np.uint64))
    if not chosen.any():
        return {}
    rest = dataset.select(~chosen)
    weak = weak_regions(rest, unseen[~chosen], index[~chosen])
    trained = train(rest, replace(recipe, held_out=0.0), weak=weak)
    last = dataset.rows[:, SIZES.index("x_channels_last")] == 1
    layouts = {"channels first": chosen & ~last, "channels last": chosen & last}
    parts = {network.stem: chosen}
    if all(part.any() for part in layouts.values()):
        parts |= {f"{network.stem}, {layout}": part for layout, part in layouts.items()}
    return {
        name: _scores(trained, dataset.select(part), index[part]) for name, part in parts.items()
    }


def _scores(model: Model, part: Dataset, index: Costs) -> dict[str, float]:
    """Scores of the model, of it with the index where it refuses, and of the index."""
    scores = evaluate(model, part)[model.devices[0].identity]
    ours = first_choices(model, part)
    together = np.where(np.isnan(ours), index, ours)
    values = (together.mean(), index.mean(), np.quantile(index, 0.95))
    return {name: getattr(scores, name) for name in _SHOWN} | {
        name: float(np.exp(value)) for name, value in zip(_INDEX, values, strict=True)
    }


def _target(data: Path, dataset: Dataset) -> Target:
    """The device as it was when it measured; `ClickException` where the times are of others too."""
    target = msgspec.json.decode((data / _TARGET).read_bytes(), type=Target)
    if [device.identity for device in dataset.devices] != [target.identity]:
        known = ", ".join(device.identity for device in dataset.devices)
        msg = f"{data} holds times of {known}, not of {target.identity} alone"
        raise click.ClickException(msg)
    return target


def _index_costs(dataset: Dataset, target: Target) -> Costs:
    """Return the cost of choosing by the throughput index within a record: log slowdowns."""
    installed = default_registry().solvers_for(target)[0]
    solvers = {versioned_id(solver): solver for solver in installed}
    names = [name for name in dataset.solvers if name in solvers]
    costs = np.full(len(dataset), np.nan)
    texts, table = dataset.texts.tolist(), dataset.log_times(names)
    for number, (text, times) in enumerate(zip(texts, table, strict=True)):
        measured = np.flatnonzero(np.isfinite(times))
        if len(measured):
            problem = ConvProblem.from_key(text)
            indices = [solvers[names[place]].wti(problem, target) or 0.0 for place in measured]
            costs[number] = times[measured[int(np.argmax(indices))]] - times.min()
    return costs


if __name__ == "__main__":
    main()
