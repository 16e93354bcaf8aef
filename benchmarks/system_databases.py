"""The records that packages of solvers ship: layers measured, and each package's results packed.

    python benchmarks/system_databases.py measure LAYERS... --device opencl:nvidia --to measured
    python benchmarks/system_databases.py pack measured --identity H200 --name h200

The first runs on the device that the records are for, with `--workers 4` on four of them at once,
and goes on where it ended; the second anywhere. Again after solvers have changed: what is known of
their present versions is not measured twice.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click

from convfind.finddb.record import FindRecord
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.problem.text import read_layer_file
from convfind.types import Direction, Layout
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.entry import own_entries
from convfind_finddb_tools.removal import remove

_PACKAGES = Path(__file__).parents[1] / "packages"
#: The packages that ship records, by the distributions whose solvers these are of.
_DISTRIBUTIONS = {
    "convfind-backend-cuda": "backend-cuda/src/convfind_backend_cuda",
    "convfind-backend-opencl": "backend-opencl/src/convfind_backend_opencl",
    "convfind-solvers-igemm": "solvers-igemm/src/convfind_solvers_igemm",
    "convfind-solvers-winograd": "solvers-winograd/src/convfind_solvers_winograd",
    "convfind-solvers-direct": "solvers-direct/src/convfind_solvers_direct",
    "convfind-solvers-fft": "solvers-fft/src/convfind_solvers_fft",
}
_PATH = click.Path(path_type=Path)


@click.group()
def main() -> None:
    """Measure layers, and pack what each package ships of the results."""


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="opencl:cpu", show_default=True, help="What to measure on.")
@click.option("--workers", default=0, show_default=True, help="Processes, a device each.")
@click.option("--to", "database", required=True, type=_PATH, help="Database.")
@click.option("-n", "batch", type=int, help="Batch size instead of the files'.")
@click.option("--strategy", default="defaults", show_default=True, help="Of `convfind tune run`.")
@click.option("--budget", help="Begin no problem after: 5m, 2h.")
@click.option("--quick", is_flag=True, help="As of `convfind tune run`.")
def measure(
    files: tuple[Path, ...],
    device: str,
    workers: int,
    database: Path,
    batch: int | None,
    strategy: str,
    budget: str | None,
    quick: bool,
) -> None:
    """Measure the layers of FILES in all directions and both layouts."""
    database.mkdir(parents=True, exist_ok=True)
    keys = database / "problems.txt"
    problems = dict.fromkeys(p.key for file in files for p in _problems(file, batch))
    keys.write_text("".join(f"{key}\n" for key in problems))
    words = ["tune", "run", str(keys), "--to", str(database), "--device", device]
    words += ["--workers", str(workers), "--strategy", strategy]
    words += ["--quick"] if quick else []
    sys.exit(_convfind(*words, *(["--budget", budget] if budget else [])))


def _problems(file: Path, batch: int | None) -> list[ConvProblem]:
    problems = []
    for layer in read_layer_file(file):
        plain = layer.problem.plain() if batch is None else layer.problem.plain().with_batch(batch)
        for channels_last in (False, True):
            layout = Layout.of(plain.spatial_rank, channels_last=channels_last)
            laid_out = replace(plain, x_layout=layout, w_layout=layout, y_layout=layout)
            problems += [laid_out.with_direction(direction) for direction in Direction]
    return problems


@main.command()
@click.argument("database", type=click.Path(exists=True, path_type=Path))
@click.option("--identity", required=True, help="A part of the device's, as in the database.")
@click.option("--name", required=True, help="Of the packs, without the suffix.")
def pack(database: Path, identity: str, name: str) -> None:
    """Write results in DATABASE into the packages of their solvers, as these are now."""
    _remove_outdated(database)
    for distribution, package in _DISTRIBUTIONS.items():
        if not _has_records(database, distribution):
            continue
        folder = _PACKAGES / package / "databases"
        folder.mkdir(exist_ok=True)
        words = ["db", "pack", str(database), "--device", identity, "--package", distribution]
        if code := _convfind(*words, "--output", str(folder / f"{name}.lmdb")):
            sys.exit(code)


def _has_records(database: Path, distribution: str) -> bool:
    with Snapshot(database) as snapshot:
        return any(
            one.record is not None and one.record.package.partition(" ")[0] == distribution
            for entry in own_entries(snapshot)
            for one in entry.results
        )


def _remove_outdated(database: Path) -> None:
    registry = default_registry()

    def is_outdated(record: FindRecord | None) -> bool:
        solver = None if record is None else registry.find_solver(record.solver)
        return record is not None and (solver is None or record.solver_version != solver.version)

    with Snapshot(database) as snapshot:
        outdated = [
            replace(entry, results=results)
            for entry in own_entries(snapshot)
            if (results := tuple(one for one in entry.results if is_outdated(one.record)))
        ]
    click.echo(f"{remove(database, outdated):,} results of solvers that have changed removed")


def _convfind(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", "convfind", *words], check=False).returncode


if __name__ == "__main__":
    main()
