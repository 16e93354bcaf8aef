"""Cold finds of layers as one batch: how long they take, and what they compile and measure.

    CONVFIND_USER_DB_PATH=FOLDER python benchmarks/cold_finds.py \\
        benchmarks/layers/resnet50.txt -n 64 --device cuda:0 --mode hybrid --hide '*'

FOLDER is empty, or has binaries alone, as `convfind compile` leaves it. The layers are found in
every direction. What packages ship for the device and its relatives counts as known, but for the
databases whose names match --hide: of an H100, ``'h100*'`` leaves the records of an H200; and what
the databases of --known hold. What the finds lose `loss.py` says, given FOLDER and one in which
mode NORMAL has found the same layers.
"""

from __future__ import annotations

import json
import time
from fnmatch import fnmatch
from pathlib import Path

import click

import convfind
from convfind.plugins.registry import default_registry
from race import problems_of

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("layers", type=_FILE)
@click.option("-n", "--batch", required=True, type=int)
@click.option("--device", help="Such as opencl:cpu.  [CONVFIND_DEVICE, else the best]")
@click.option("--mode", help="A find mode.  [that of plans of networks]")
@click.option("--hide", default="", help="Names of shipped databases to leave out, as a pattern.")
@click.option(
    "--known", type=_FILE, multiple=True, help="Databases *.lmdb with records of related devices."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    layers: Path,
    batch: int,
    device: str | None,
    mode: str | None,
    hide: str,
    known: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Find all layers, and print what it took."""
    registry = default_registry()
    shipped = tuple(path for path in registry.system_databases() if not fnmatch(path.name, hide))
    setattr(registry, "system_databases", lambda: (*shipped, *known))  # noqa: B010
    began = time.perf_counter()
    with convfind.open(device, registry=registry) as handle:
        opened = time.perf_counter()
        problems = [problem for _, problem in problems_of(layers, batch)]
        found = handle.find_all(problems, handle.mode_for_fixed_sizes(mode))
        ended = time.perf_counter()
        told = {
            "device": handle.target.name,
            "problems": len(found),
            "seconds to open": round(opened - began, 2),
            "seconds": round(ended - opened, 2),
            "compiled": handle.session.kernels.compiled,
            "measured": sum(result.measured for result in found.values()),
            "in doubt": sum(result.is_in_doubt for result in found.values()),
            "ms found": round(sum(result.best.time_ms or 0 for result in found.values()), 3),
        }
    text = json.dumps(told) if as_json else ", ".join(f"{key} {told[key]}" for key in told)
    click.echo(text)


if __name__ == "__main__":
    main()
