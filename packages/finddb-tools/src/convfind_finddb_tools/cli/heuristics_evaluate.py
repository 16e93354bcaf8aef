"""``convfind heuristics evaluate``: the cost of a model's choices on measured problems."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, cast

import click

from convfind.cli.app import App, Command, new_table
from convfind.cli.progress import ProgressBar
from convfind.errors import ModelError
from convfind.heuristics.model import TrainedHeuristic
from convfind.heuristics.neighbours import Relation
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.heuristics.dataset import Dataset, read_dataset
from convfind_finddb_tools.heuristics.evaluation import Scores, evaluate, query_times
from convfind_finddb_tools.heuristics.split import Split, held_out

_SHARES = ("top1", "top3", "within5pct", "over2x", "open1", "median_time_error")


@click.command("evaluate", cls=Command)
@click.argument("model", type=PATH, metavar="MODEL")
@click.argument("data", nargs=-1, required=True, type=PATH, metavar="DATA...")
@click.option("--all", "everything", is_flag=True, help="Score on what it was trained on, too.")
@click.option(
    "--sibling",
    "siblings",
    multiple=True,
    type=PATH,
    metavar="DATA",
    help="Records of a sibling device. Repeatable.",
)
@click.pass_obj
def heuristics_evaluate(
    app: App,
    model: Path,
    data: tuple[Path, ...],
    everything: bool,
    siblings: tuple[Path, ...],
) -> None:
    """Score a model on measured problems that it was not trained on.

    A choice is scored among the solvers of a record. The held-out problems follow from the
    model's seed, even in data other than the training data. A model that uses neighbours is
    also scored with those that exist: the records of a --sibling, and DATA's own records of
    the same problems at other batch sizes.

    \b
    Examples:
      convfind heuristics evaluate h200.npz tuned
      convfind heuristics evaluate mi250.npz gfx90a68.HIP.fdb.txt.bz2 --json
    """
    heuristic = TrainedHeuristic("evaluated", model)
    trained = heuristic.model()
    dataset = read_with_progress(data)
    unseen = dataset
    if not everything:
        training = trained.training
        split = cast("Split", training.split)
        unseen = dataset.select(held_out(dataset, split, training.held_out, training.seed))
    others = read_with_progress(siblings) if siblings else None
    scores = evaluate(trained, unseen)
    if not scores:
        devices = ", ".join(device.identity for device in trained.devices)
        msg = f"the data hold no problem to score on of the model's devices: {devices}"
        raise ModelError(msg)
    query, batch = query_times(heuristic, unseen)
    near = []
    relations = [r for r in Relation if r in trained.relations]
    for known in (part for n in (1, 2) for part in combinations(relations, n)):
        if others is not None or Relation.SIBLING not in known:
            told = evaluate(trained, unseen, known, others)
            near.append(WithNeighbours(known, told, query_times(heuristic, unseen, known, others)))
    print_scores(app, model, scores, near, query_us=query, batch_us=batch)


def read_with_progress(data: tuple[Path, ...]) -> Dataset:
    """Read data, with a progress bar if it takes long."""
    with ProgressBar("problems read", 0) as bar:
        return read_dataset(data, lambda count: bar.advance("problems read", count))


class WithNeighbours(NamedTuple):
    """Scores of a model that uses neighbours."""

    relations: tuple[Relation, ...]
    scores: dict[str, Scores]
    times: tuple[float, float]  # microseconds of a query, of one in a batch


def print_scores(
    app: App,
    model: Path,
    scores: dict[str, Scores],
    near: Sequence[WithNeighbours] = (),
    **more: float,
) -> None:
    """Print the scores on each device; as JSON with those of a single device on the top level."""
    size = model.stat().st_size
    if app.json:
        document: dict[str, Any] = {"model": str(model), "model_bytes": size, **more}
        if len(scores) == 1:
            document |= dataclasses.asdict(next(iter(scores.values())))
        document["devices"] = _json(scores)
        document["neighbours"] = [
            {"known": told.relations, "devices": _json(told.scores), "query_us": told.times[0]}
            for told in near
        ]
        app.emit(document)
        return
    columns = {device: found for device, found in scores.items()}
    for told in near:
        label = " and ".join(told.relations)
        columns |= {f"{device}\n{label} known": found for device, found in told.scores.items()}
    names = [field.name for field in dataclasses.fields(Scores)]
    table = new_table("score", *columns, right=tuple(columns))
    for name in names:
        table.add_row(
            name.replace("_", " "), *(_text(name, getattr(s, name)) for s in columns.values())
        )
    app.print(table, "", f"model    {model}, {size / 1e3:,.0f} kB")
    if more:
        app.print(f"query    {more['query_us']:.1f} us, in a batch {more['batch_us']:.2f} us")
    for told in near:
        label = " and ".join(told.relations)
        app.print(f"         {told.times[0]:.1f} us, {told.times[1]:.2f} us with {label} known")


def _json(scores: dict[str, Scores]) -> dict[str, Any]:
    return {name: dataclasses.asdict(found) for name, found in scores.items()}


def _text(name: str, value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{100 * value:.2f} %" if name in _SHARES else f"{value:.4f}"
