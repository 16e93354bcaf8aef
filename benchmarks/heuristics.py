"""Heuristic models of MIOpen's solvers, trained and scored on MIOpen's find databases.

    python benchmarks/heuristics.py FOLDER [--device gfx90a68.HIP] [--seed 0] [--json]

FOLDER holds *.fdb.txt.bz2 files. For each device a model is trained on all but a fifth of the shape
families, and scored on that fifth among the solvers of each record. The models are for comparing
with what is published about MIOpen's own; nothing runs its solvers.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from convfind.heuristics import TrainedHeuristic
from convfind.heuristics.model_file import write_model
from convfind_finddb_tools.heuristics.dataset import read_dataset
from convfind_finddb_tools.heuristics.evaluation import evaluate, query_times
from convfind_finddb_tools.heuristics.split import held_out
from convfind_finddb_tools.heuristics.training import Recipe, train

DEVICES = ("gfx90a68.HIP", "gfx90878.HIP", "gfx942130.HIP")


def measure(file: Path, seed: int) -> dict[str, Any]:
    """Train on a file, and return the scores on what was held out."""
    dataset = read_dataset([file])
    recipe = Recipe(seed=seed)
    start = time.perf_counter()
    model = train(dataset, recipe)
    elapsed = time.perf_counter() - start
    unseen = dataset.select(held_out(dataset, recipe.split, recipe.held_out, seed))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        write_model(path, model)
        heuristic = TrainedHeuristic("benchmark", path)
        (scores,) = evaluate(heuristic.model(), unseen).values()  # weights as they are stored
        query, batch = query_times(heuristic, unseen)
        size = path.stat().st_size
    return dataclasses.asdict(scores) | {
        "query_us": query,
        "batch_us": batch,
        "model_bytes": size,
        "training_s": elapsed,
    }


def main() -> None:
    """Print a table or JSON, a column for each device."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", action="append", help="name of a file, without endings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    measured = {
        device: measure(given.folder / f"{device}.fdb.txt.bz2", given.seed)
        for device in given.device or DEVICES
    }
    if given.json:
        print(json.dumps(measured, indent=2))
        return
    print(f"{'':22}" + "".join(f"{device:>16}" for device in measured))
    for name in next(iter(measured.values())):
        print(f"{name:22}" + "".join(f"{values[name]:16.4f}" for values in measured.values()))


if __name__ == "__main__":
    main()
