"""The cost of the find database: a hit, a miss, a store, at a thousand to ten million problems."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from convfind.device.target import DeviceKind, Target
from convfind.finddb import FindDb, FindEntry, FindRecord
from convfind.finddb.change import Change
from convfind.finddb.database import FILE_NAME, LAYOUT
from convfind.finddb.database_file import DatabaseFile
from convfind.finddb.environment import Environment, Transaction
from convfind.finddb.key import database_key, seal
from convfind.finddb.table import FIND
from convfind.problem import ConvProblem

TARGET = Target(
    backend="opencl",
    name="NVIDIA H200",
    kind=DeviceKind.GPU,
    vendor="NVIDIA Corporation",
    platform="NVIDIA CUDA",
    arch="sm_90",
    compute_units=132,
    driver="570.1",
)
ENTRY = FindEntry(
    records=tuple(
        FindRecord(
            solver=f"igemm-nchw-fwd-{number}",
            solver_version=1,
            package="convfind-solvers-igemm 0.1.0",
            algorithm="implicit-gemm",
            time_ms=0.1 + number,
            spread_ms=0.01,
            samples=12,
            workspace=1 << 20,
            config={"tile_m": 64, "tile_n": 64, "tile_k": 16, "vec": 4},
            error=1e-6,
            source_hash="0123456789abcdef",
            driver="opencl|NVIDIA CUDA|sm_90|570.1",
            created=1_790_000_000,
        )
        for number in range(5)
    ),
    considered=tuple(f"igemm-nchw-fwd-{number}@1" for number in range(12)),
)
SAMPLE = 1000  # problems that are looked up, spread over the whole database


def problem(number: int) -> ConvProblem:
    """A problem of its own for each number; even ones are stored, odd ones are not."""
    return ConvProblem.forward(
        x=(1 + number % 997, 64, 56, 56), w=(32 + number // 997, 64, 3, 3), padding=1
    )


def keys(count: int, sample: list[ConvProblem]) -> Iterator[bytes]:
    """Keys of the sampled problems and, between them, of others that look alike."""
    sampled = [database_key(TARGET, one) for one in sample]
    yield from sampled
    share, rest = divmod(count - len(sampled), len(sampled))
    for place, key in enumerate(sampled):
        for number in range(share + (place < rest)):
            yield key + b"~%08d" % number


def fill(db: FindDb, file: DatabaseFile, count: int, sample: list[ConvProblem]) -> None:
    """Write many entries in large transactions."""
    ordered = sorted(keys(count, sample))
    for start in range(0, count, 100_000):
        part = ordered[start : start + 100_000]

        def put(
            environment: Environment, transaction: Transaction, part: list[bytes] = part
        ) -> None:
            # Encoded once: what is timed here is not the filling.
            payload = FIND.encode(ENTRY, Change(environment.table, transaction))
            items = [(key, seal(key, payload)) for key in part]
            transaction.cursor(environment.table(FIND.name)).putmulti(items)

        if not file.write(put):
            raise SystemExit("; ".join(db.health()))


def microseconds(work: Callable[[ConvProblem], object], problems: list[ConvProblem]) -> float:
    """Median over rounds of the mean time of one call."""
    rounds = []
    for _ in range(7):
        begin = time.perf_counter()
        for one in problems:
            work(one)
        rounds.append((time.perf_counter() - begin) / len(problems) * 1e6)
    return statistics.median(rounds)


def measure(count: int, folder: Path) -> dict[str, float]:
    """Build a database of so many problems over a system database, and time it."""
    step = max(1, 500_000 // SAMPLE)
    stored = [problem(2 * step * number) for number in range(SAMPLE)]
    missing = [problem(2 * step * number + 1) for number in range(SAMPLE)]
    for one in (*stored, *missing):
        _ = one.key  # formatted once for each problem, and not part of a look-up
    with FindDb.open(folder / "system") as system:
        system.store(TARGET, problem(999_999), ENTRY)
    file = DatabaseFile(folder / FILE_NAME, LAYOUT, writable=True)
    shipped = DatabaseFile(folder / "system" / FILE_NAME, LAYOUT, writable=False)
    with FindDb(file, [shipped]) as db:
        fill(db, file, count, stored)
        if db.lookup(TARGET, stored[-1]) is None or db.lookup(TARGET, missing[0]) is not None:
            raise SystemExit("the database does not hold what was written")
        times = {
            "hit_us": microseconds(lambda one: db.lookup(TARGET, one), stored),
            "miss_us": microseconds(lambda one: db.lookup(TARGET, one), missing),
            "store_us": microseconds(lambda one: db.store(TARGET, one, ENTRY), missing[:100]),
        }
    return {"records": count, "file_mb": (folder / FILE_NAME).stat().st_size / 1e6, **times}


@click.command()
@click.option(
    "--largest", default=1_000_000, show_default=True, help="Most problems in a database."
)
@click.option("--folder", type=click.Path(path_type=Path), help="Where to build; else temporary.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(largest: int, folder: Path | None, as_json: bool) -> None:
    """Measure look-ups and stores at 1k, 10k, .. 10M problems with five records each (21 GB)."""
    rows = []
    console = Console(stderr=True)
    for count in (1_000, 10_000, 100_000, 1_000_000, 10_000_000):
        if count > largest:
            break
        top = Path(tempfile.mkdtemp(prefix="convfind-finddb-", dir=folder))
        try:
            with console.status(f"{count:,} problems"):
                rows.append(measure(count, top))
        finally:
            shutil.rmtree(top)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table(title="FindDb, microseconds a call, user database over one system database")
    for heading in ("problems", "file MB", "hit, 5 records", "miss", "store"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row['records']:,}",
            f"{row['file_mb']:.1f}",
            *(f"{row[name]:.1f}" for name in ("hit_us", "miss_us", "store_us")),
        )
    Console().print(table)


if __name__ == "__main__":
    main()
