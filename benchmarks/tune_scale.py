"""How tuning scales: workers against one, what the scheduler costs, and what a merge costs.

    python benchmarks/tune_scale.py workers benchmarks/layers/resnet50.txt -n 1 --workers 2
    python benchmarks/tune_scale.py workers FILE -n 32 --workers 4 --direction all
    python benchmarks/tune_scale.py scheduler

The first measures on a CPU, where one worker measures and the other compiles; the second on four
GPUs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from convfind.device.target import DeviceKind, Target
from convfind.finddb import FindDb, FindEntry, FindRecord
from convfind.problem import ConvProblem
from convfind_finddb_tools.tune.campaign import Campaign
from convfind_finddb_tools.tune.cluster import DaskFleet
from convfind_finddb_tools.tune.order import Identity, Known, Order, Outcome, Strategy
from convfind_finddb_tools.tune.run import Run, Summary

_TARGET = Target(
    backend="mock", name="recorded", kind=DeviceKind.CPU, vendor="", platform="none", arch="none",
    compute_units=1, driver="1",
)  # fmt: skip


@click.group()
def main() -> None:
    """Measure how tuning scales."""


@main.command()
@click.argument("layers", type=click.Path(exists=True, path_type=Path))
@click.option("-n", "--batch", default=1, show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--device", default="opencl:0", show_default=True)
@click.option("--first", default=0, help="Only so many layers.  [all]")
@click.option("--strategy", default="defaults", show_default=True)
@click.option("--direction", default="fwd", show_default=True)
@click.option("--json", "as_json", is_flag=True)
def workers(
    layers: Path,
    batch: int,
    workers: int,
    device: str,
    first: int,
    strategy: str,
    direction: str,
    as_json: bool,
) -> None:
    """Tune LAYERS with one worker and with several, and compare problems a second.

    Starting the workers does not count. On a CPU one of several measures, and the others compile.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "layers.txt")
        lines = [line for line in layers.read_text().splitlines() if line.startswith("conv")]
        source.write_text("\n".join(lines[: first or None]))
        what: list[object] = [source, "-n", batch, "--device", device]
        what += ["--strategy", strategy, "--direction", direction]
        _tune(what, workers, Path(folder, "warm-up"))  # and compiles
        several = _tune(what, workers, Path(folder, "several"))
        one = _tune(what, 1, Path(folder, "one"))
        measuring = [_measuring(Path(folder, run)) for run in ("one", "several")]
    ratio = one["seconds"] / several["seconds"]
    document = {
        "device": several["device"], "problems": several["total"], "workers": workers,
        "one_s": one["seconds"], "several_s": several["seconds"], "speedup": ratio,
        "one_measuring_s": measuring[0], "several_measuring_s": measuring[1],
    }  # fmt: skip
    if as_json:
        print(json.dumps(document))
        return
    print(f"device    {one['device']} and {workers} x {several['device']}")
    print(f"1 worker  {one['seconds']:.2f} s for {one['total']} problems")
    print(f"{workers} workers {several['seconds']:.2f} s: {ratio:.2f} times as fast")
    print(f"at work   {measuring[0]:.2f} s and, all together, {measuring[1]:.2f} s")


def _measuring(database: Path) -> float:
    """Seconds in which workers were at a problem, added up."""
    lines = (database / "tuning" / "journal.jsonl").read_text().splitlines()
    events = map(json.loads, lines)
    return float(sum(event["seconds"] for event in events if event["event"] == "finished"))


def _tune(what: list[object], workers: int, out: Path) -> Any:
    words = ("tune", "run", *what, "--workers", workers, "--to", out, "--json")
    command = [sys.executable, "-m", "convfind", *map(str, words)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


class _Nobody:
    """A watcher that does not look."""

    def started(self, summary: Summary, workers: int) -> None:
        """Nothing."""

    def finished(self, outcome: Outcome, workers: int) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Print it."""
        print(text)

    def tick(self) -> None:
        """Nothing."""


@main.command()
@click.option("--problems", default=5000, show_default=True)
@click.option("--workers", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def scheduler(problems: int, workers: int, as_json: bool) -> None:
    """Replay problems that take no time: all that remains is what handing them over costs."""
    chosen = [ConvProblem.forward((1 + n, 8, 16, 16), (8, 8, 3, 3)) for n in range(problems)]
    with tempfile.TemporaryDirectory() as folder:
        recorded = Path(folder, "recorded")
        entries = _record(recorded, chosen)
        batched = _replay(Path(folder, "batched"), recorded, chosen, workers, 256)
        single = _replay(Path(folder, "single"), recorded, chosen[: problems // 5], workers, 1)
        merge_us = _merge(Path(folder, "merged"), entries)
    head = max(single["head_ms"] - batched["head_ms"], 0.0)
    document = {
        "problems": problems, "workers": workers,
        "ms_a_problem": batched["wall_ms"], "head_ms_a_problem": batched["head_ms"],
        "ms_a_batch_of_one": single["wall_ms"], "head_ms_a_batch": head, "merge_us": merge_us,
    }  # fmt: skip
    if as_json:
        print(json.dumps(document))
        return
    print(f"{batched['wall_ms']:.3f} ms a problem, {batched['head_ms']:.3f} ms of them the head's")
    print(
        f"{single['wall_ms']:.3f} ms a problem in batches of one, {head:.3f} ms a batch the head's"
    )
    print(f"{merge_us:.1f} us to merge one outcome")


def _record(folder: Path, chosen: list[ConvProblem]) -> list[FindEntry]:
    record = FindRecord(
        solver="solver", solver_version=1, package="none 1", algorithm="direct", time_ms=1.0
    )
    entry = FindEntry(records=(record,) * 1, considered=("solver@1",))
    with FindDb.open(folder) as database:
        for problem in chosen:
            database.store(_TARGET, problem, entry)
    return [entry] * len(chosen)


def _replay(
    out: Path, recorded: Path, chosen: list[ConvProblem], workers: int, most: int
) -> dict[str, float]:
    """Wall time a problem, and processor time of this process, in which the scheduler runs too."""
    with Campaign(out) as campaign:
        order = Order(strategy=Strategy.DEFAULTS, replay=str(recorded), shards=str(campaign.shards))
        fleet = DaskFleet.start(order, workers, 0)
        fleet.most_in_batch = most
        try:
            run = Run(campaign, fleet, chosen, {}, Strategy.DEFAULTS, _Nobody())
            began = time.process_time()
            summary = run.go()
            head = time.process_time() - began
        finally:
            fleet.close()
    assert summary.finished == len(chosen)
    return {
        "wall_ms": 1e3 * summary.seconds / len(chosen),
        "head_ms": 1e3 * head / len(chosen),
    }


def _merge(out: Path, entries: list[FindEntry]) -> float:
    identity = Identity(_TARGET.identity, "none")
    with Campaign(out) as campaign:
        for number, entry in enumerate(entries):
            problem = ConvProblem.forward((1 + number, 8, 16, 16), (8, 8, 5, 5)).key
            found = Known(entry=entry)
            campaign.add(Outcome(problem=problem, identity=identity, found=found))
        began = time.perf_counter()
        campaign.checkpoint()
        return 1e6 * (time.perf_counter() - began) / len(entries)


if __name__ == "__main__":
    main()
