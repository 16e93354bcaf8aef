"""The cost of merging databases: seconds and memory for two that share half of their problems."""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from convfind.finddb import FindEntry, FindRecord
from convfind.finddb.environment import Transaction
from convfind.finddb.key import SCHEMA, seal
from convfind.finddb.table import FIND
from convfind_finddb_tools.database import Writer
from convfind_finddb_tools.merging import merge_databases

DEVICE = "opencl|NVIDIA CUDA|NVIDIA H200|sm_90|132"
BATCH = 100_000


def items(first: int, count: int, payload: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Sealed entries of so many problems, in the order of their keys."""
    for number in range(first, first + count):
        shape = f"{1 + number // 65536:05}x64x{1 + number // 256 % 256:03}x{1 + number % 256:03}"
        key = f"{SCHEMA}|{DEVICE}|fwd-{shape}-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32".encode()
        yield key, seal(key, payload)


def build(folder: Path, first: int, count: int, samples: int) -> None:
    """Write a database of so many problems with a record each."""
    record = FindRecord(
        solver="igemm-nchw-fwd",
        solver_version=1,
        package="convfind-solvers-igemm 0.1.0",
        algorithm="implicit-gemm",
        time_ms=0.1 * samples,
        spread_ms=0.01,
        samples=samples,
        workspace=1 << 20,
        config={"tile_m": 64, "tile_n": 64, "tile_k": 16, "vec": 4},
        error=1e-6,
        source_hash="0123456789abcdef",
        driver="570.1",
        created=1_790_000_000,
    )
    entry = FindEntry(records=(record,), considered=("igemm-nchw-fwd@1", "opencl-gemm@1"))
    with Writer(folder, room=1 << 30) as writer:
        payload = writer.change(lambda change: FIND.encode(entry, change))
        for start in range(0, count, BATCH):
            part = list(items(first + start, min(BATCH, count - start), payload))

            def put(transaction: Transaction, part: list[tuple[bytes, bytes]] = part) -> None:
                transaction.cursor(writer.table(FIND.name)).putmulti(part, append=True)

            writer.write(put)


class Watch:
    """The most memory that this process holds by itself, pages of files not counted."""

    def __init__(self) -> None:
        self.most = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.02):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    self.most = max(self.most, int(line.split()[1]) >> 10)


def merge(folder: Path) -> dict[str, float]:
    """Merge both databases in this process, which did nothing before."""
    begin = time.perf_counter()
    with Watch() as watch:
        report = merge_databases([folder / "a", folder / "b"], folder / "out")
    seconds = time.perf_counter() - begin
    again = time.perf_counter()
    if merge_databases([folder / "b"], folder / "out").changed:
        raise SystemExit("merging again changes something")
    return {
        "s": seconds,
        "again_s": time.perf_counter() - again,
        "read": report.read,
        "conflicts": report.conflicting,
        "anonymous_mib": watch.most,
        "resident_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "output_mb": (folder / "out" / "finddb.lmdb").stat().st_size / 1e6,
    }


@click.command()
@click.option("--records", default=1_000_000, show_default=True, help="In each database.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where to build; else temporary.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(records: int, folder: Path | None, as_json: bool) -> None:
    """Merge two databases of so many records into an empty third one."""
    if sys.platform != "linux":
        raise SystemExit("memory is read from /proc: Linux only")
    top = Path(tempfile.mkdtemp(prefix="convfind-merge-", dir=folder))
    try:
        build(top / "a", 0, records, samples=5)
        build(top / "b", records // 2, records, samples=9)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(merge, top).result()
    finally:
        shutil.rmtree(top)
    if as_json:
        click.echo(json.dumps({"records": records, **found}, indent=2))
        return
    table = Table("", "value")
    for name, value in found.items():
        table.add_row(name, f"{value:,.1f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
