"""The records that packages of solvers ship: layers measured, and a family's results packed.

    python benchmarks/system_databases.py --identity zen5 --name zen5 -n 4 benchmarks/layers/*.txt

Again after solvers have changed: what is known of their present versions is not measured twice.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

_PACKAGES = Path(__file__).parents[1] / "packages"
#: Algorithms of the packages' solvers.
_FAMILIES = {
    "winograd": "solvers-winograd/src/convfind_solvers_winograd",
}


def _convfind(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "convfind", *words], check=True)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="opencl:cpu", show_default=True, help="What to measure on.")
@click.option("--identity", required=True, help="A part of its identity, as in the database.")
@click.option("--name", required=True, help="Of the packs, without the suffix.")
@click.option("-n", "batch", type=int, help="Batch size instead of the files'.")
@click.option("--tune", is_flag=True, help="Search for better parameters; takes hours.")
def main(
    files: tuple[Path, ...],
    device: str,
    identity: str,
    name: str,
    batch: int | None,
    *,
    tune: bool,
) -> None:
    """Measure the layers of FILES in all directions, into the database of CONVFIND_USER_DB_PATH."""
    options = ["--device", device, "--direction", "all", "--mode", "hybrid"]
    options += ["-n", str(batch)] if batch else []
    options += ["--tune"] if tune else []
    for file in files:
        _convfind("bench", str(file), *options)
    for algorithm, package in _FAMILIES.items():
        folder = _PACKAGES / package / "databases"
        folder.mkdir(exist_ok=True)
        output = str(folder / f"{name}.lmdb")
        _convfind(
            *("db", "pack", "--device", identity, "--algorithm", algorithm, "--output", output)
        )


if __name__ == "__main__":
    main()
