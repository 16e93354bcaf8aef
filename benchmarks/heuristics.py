"""Heuristic models of MIOpen's solvers, trained and scored on MIOpen's find databases.

    python benchmarks/heuristics.py FOLDER [--device gfx90a68.HIP] [--sibling gfx90878.HIP]
        [--seed 0 --seed 1] [--teachers 24] [--models KEPT] [--json]

FOLDER holds *.fdb.txt.bz2 files. For each device and seed a model is trained on all but a fifth of
the shape families, which the seed chooses, and scored on that fifth among the solvers of each
record: alone, and told of the neighbours that are known: the record of the same problem at another
batch size, and with --sibling on another device. With several seeds the mean and the standard
deviation are shown. The models are for comparing with what is published about MIOpen's own; nothing
runs its solvers. With --models they are kept, and what is kept is scored and timed without training
again: an idle machine's times take a minute. With --teachers, so many large networks of each of two
kinds teach those of the model, which wants a GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from convfind.heuristics import Relation, TrainedHeuristic
from convfind.heuristics.model_file import write_model
from convfind_finddb_tools.heuristics.dataset import Dataset, read_dataset
from convfind_finddb_tools.heuristics.evaluation import Scores, evaluate, query_times
from convfind_finddb_tools.heuristics.split import held_out
from convfind_finddb_tools.heuristics.teaching import Teaching
from convfind_finddb_tools.heuristics.training import Recipe, train

DEVICES = ("gfx90a68.HIP", "gfx90878.HIP", "gfx942130.HIP")
_WIDTH = 30


def measure(
    dataset: Dataset, recipe: Recipe, path: Path, siblings: Dataset | None = None
) -> dict[str, dict[str, Any]]:
    """Train unless there is a model, and return the scores on what was held out by which
    neighbours are known.
    """
    start = time.perf_counter()
    if not path.exists():
        write_model(path, train(dataset, recipe, siblings=siblings))
    elapsed = time.perf_counter() - start
    unseen = dataset.select(held_out(dataset, recipe.split, recipe.held_out, recipe.seed))
    heuristic = TrainedHeuristic("benchmark", path)
    trained = heuristic.model()  # weights as they are stored
    found = {}
    relations = [relation for relation in Relation if relation in trained.relations]
    for known in itertools.chain.from_iterable(
        itertools.combinations(relations, count) for count in range(len(relations) + 1)
    ):
        (scores,) = evaluate(trained, unseen, known, siblings).values()
        query, batch = query_times(heuristic, unseen, known, siblings)
        found["+".join(known) or "alone"] = dataclasses.asdict(scores) | {
            "query_us": query,
            "batch_us": batch,
            "model_bytes": path.stat().st_size,
            "training_s": elapsed,
        }
    return found


def main() -> None:
    """Print a table or JSON, a column for each device."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", action="append", help="name of a file, without endings")
    parser.add_argument("--sibling", help="name of a file; of a device that is not measured")
    parser.add_argument("--seed", action="append", type=int)
    parser.add_argument(
        "--teachers", type=int, default=0, help="large networks of each kind that teach"
    )
    parser.add_argument("--models", type=Path, help="folder in which models are kept")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = _measure_all(given, given.models or Path(folder))
    if given.json:
        print(json.dumps(measured, indent=2))
        return
    print(f"{'':22}" + "".join(f"{device:>{_WIDTH}}" for device in measured))
    names = [field.name for field in dataclasses.fields(Scores)]
    for name in (*names, "query_us", "batch_us", "model_bytes", "training_s"):
        print(f"{name:22}" + "".join(_cell(seeds, name) for seeds in measured.values()))


def _measure_all(given: argparse.Namespace, models: Path) -> dict[str, dict[int, dict[str, Any]]]:
    """Scores by device with what is known, and by seed."""

    def read(device: str) -> Dataset:
        return read_dataset([given.folder / f"{device}.fdb.txt.bz2"])

    siblings = read(given.sibling) if given.sibling else None
    taught = f"-{given.teachers}" if given.teachers else ""
    measured: dict[str, dict[int, dict[str, Any]]] = {}
    for device in given.device or DEVICES:
        dataset = read(device)
        for seed in given.seed or [0]:
            path = models / f"{device}-{given.sibling or 'alone'}-{seed}{taught}.npz"
            recipe = Recipe(seed=seed, teaching=Teaching.by(given.teachers))
            for known, scores in measure(dataset, recipe, path, siblings).items():
                measured.setdefault(f"{device} {known}", {})[seed] = scores
    return measured


def _cell(seeds: dict[int, dict[str, Any]], name: str) -> str:
    values = [scores[name] for scores in seeds.values()]
    spread = f" +- {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{f'{statistics.mean(values):.4f}{spread}':>{_WIDTH}}"


if __name__ == "__main__":
    main()
