"""``convfind heuristics train``: trains a model on measured times and writes its file."""

from __future__ import annotations

from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind.cli.progress import ProgressBar
from convfind.errors import ModelError
from convfind.heuristics.model_file import write_model
from convfind.install_hint import pip_install
from convfind_finddb_tools.cli.heuristics_evaluate import print_scores, read_with_progress
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.heuristics.evaluation import Scores
from convfind_finddb_tools.heuristics.split import Split


@click.command("train", cls=Command)
@click.argument("data", nargs=-1, required=True, type=PATH, metavar="DATA...")
@click.option("--output", required=True, type=PATH, metavar="MODEL", help="File to write, *.npz.")
@click.option("--seed", type=int, default=0, help="Of the split and of the training.  [0]")
@click.option(
    "--held-out",
    type=click.FloatRange(0.0, 0.9),
    default=0.2,
    help="Share of the problems that is only scored on.  [0.2]",
)
@click.option(
    "--split",
    type=click.Choice(["family", "problem"]),
    default="family",
    help="What is held out: whole shape families, or single problems.  [family]",
)
@click.option(
    "--sibling",
    "siblings",
    multiple=True,
    type=PATH,
    metavar="DATA",
    help="Records of a sibling device: the model learns to make use of them. Repeatable.",
)
@click.option("--epochs", type=click.IntRange(min=1), default=50, help="Passes.  [50]")
@click.option(
    "--teachers",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Large networks, of each of two kinds, that teach the model's; 24 are plenty.  [0]",
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="Of PyTorch, to train on.  [a GPU that it sees, else the CPU]",
)
@click.pass_obj
def heuristics_train(
    app: App,
    data: tuple[Path, ...],
    output: Path,
    seed: int,
    held_out: float,
    split: Split,
    siblings: tuple[Path, ...],
    epochs: int,
    teachers: int,
    device: str | None,
) -> None:
    """Train a model from measured times, for all devices and directions in the data.

    A part of the data is held out, and the model's scores on it are kept in its file. A shape
    family consists of problems that differ only in batch size, data type, direction or layout;
    holding out single problems gives flattering scores, since the model saw similar ones. The same
    data and seed give the same model on the same machine. With enough data the model also learns
    to use the record of the same problem at another batch size, and on a --sibling: a device
    of the same family. Needs PyTorch, which the package's extra [train] brings.

    With --teachers, large networks are trained first. They are too slow for a query, so they teach
    small ones, one for each data type, on 80,000 derived problems besides the measured ones: on
    MIOpen's records half a point more first choices are right, the file is three times as large,
    and a query takes 5 % longer. With 40,000 problems a direction takes seconds on a GPU, and
    most of an hour instead of 15 seconds on two cores of a CPU. With fewer than 1,500 problems in
    a direction no teachers are trained.

    \b
    Examples:
      convfind heuristics train tuned --output h200.npz --seed 1
      convfind heuristics train gfx90a68.HIP.fdb.txt.bz2 --output mi250.npz \
        --sibling gfx90878.HIP.fdb.txt.bz2 --teachers 24
    """
    try:
        from convfind_finddb_tools.heuristics.teaching import Teaching
        from convfind_finddb_tools.heuristics.training import Recipe, train, training_device
    except ModuleNotFoundError as exc:
        msg = f"training needs {exc.name}: {pip_install('convfind-finddb-tools[train]')}"
        raise ModelError(msg) from exc
    device = training_device(device)
    dataset = read_with_progress(data)
    others = read_with_progress(siblings) if siblings else None
    recipe = Recipe(
        seed=seed,
        held_out=held_out,
        split=split,
        epochs=epochs,
        teaching=Teaching.by(teachers),
        device=device,
    )
    with ProgressBar("training, % done", 100) as bar:
        model = train(
            dataset,
            recipe,
            lambda done, total: bar.advance("training, % done", 100 * done // total),
            others,
        )
    try:
        write_model(output, model)
    except OSError as exc:
        msg = f"{output} cannot be written: {exc}"
        raise ModelError(msg) from exc
    scores = {name: Scores.of(values) for name, values in model.training.scores.items()}
    print_scores(app, output, scores)
