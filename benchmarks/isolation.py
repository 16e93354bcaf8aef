"""The cost of a child for candidates, and whether anything is lost where processes are killed.

python benchmarks/isolation.py [DEVICE] [--kills N]

Without --kills: the start of a child, and a request. With it: another process finds one problem
after the other in a child, and at random moments the child or that process is killed, N times in
all. Nothing that a find has returned may be missing, no record be damaged, and no child be left.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

import convfind
from convfind.errors import ConvfindError
from convfind.finddb import FindDb
from convfind.problem import ConvProblem
from convfind.settings import Settings

_STARTS = 5
_REQUESTS = 1000
#: Seconds within which a kill comes, after a child has been seen.
_LATEST_KILL = 3.0
#: Seconds after which a child whose parent was killed is one that was left.
_LEFT = 10.0


@click.command()
@click.argument("device", required=False)
@click.option("--kills", type=click.IntRange(1), help="Kill children and parents so many times.")
@click.option("--seed", default=0, show_default=True, help="Of the moments.")
@click.option("--finding-in", type=click.Path(path_type=Path), hidden=True)
def main(device: str | None, kills: int | None, seed: int, finding_in: Path | None) -> None:
    """Measure, or kill."""
    if finding_in is not None:
        _find_for_ever(device, finding_in)
    elif kills is not None:
        _kill(device, kills, random.Random(seed))
    else:
        _measure(device)


def _measure(device: str | None) -> None:
    """Print seconds of CPU time and of the clock for a start, and milliseconds for a request."""
    with convfind.open(device) as handle:
        child = handle.session.child
        assert child is not None
        starts, cpu = [], []
        for _ in range(_STARTS):
            child.close()
            began = time.perf_counter()
            child.life()
            starts.append(time.perf_counter() - began)
            cpu.append(_cpu_seconds(child.pid))
        began = time.perf_counter()
        for _ in range(_REQUESTS):
            child.call("forget", (), limit=60.0)
        request = (time.perf_counter() - began) / _REQUESTS
        click.echo(
            f"start    {statistics.median(starts):.2f} s, {statistics.median(cpu):.2f} s of CPU"
        )
        click.echo(f"request  {1e3 * request:.3f} ms")


def _cpu_seconds(pid: int | None) -> float:
    """User and system time of a process, from Linux's tables."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


# -- kills ----------------------------------------------------------------------------------------


def _problem(number: int) -> ConvProblem:
    """One of a million small problems."""
    batch, height, width = 1 + number % 16, 4 + number // 16 % 250, 4 + number // 4000 % 250
    return ConvProblem.forward(x=(batch, 8, height, width), w=(8, 8, 1, 1))


def _find_for_ever(device: str | None, folder: Path) -> None:
    """Find numbered problems in a child, and say of each that it is stored."""
    first, parent = int(os.environ["CONVFIND_FIRST_PROBLEM"]), os.getppid()
    with convfind.open(device, settings=Settings(user_db_path=folder)) as handle:
        for number in itertools.count(first):
            if os.getppid() != parent:
                return  # interrupted
            try:
                handle.find(_problem(number), isolate="always")
            except ConvfindError as error:
                click.echo(f"{number} failed: {error}")
            else:
                click.echo(f"{number} stored")


@dataclass
class _Finder:
    """A process that finds, and what it has said."""

    process: subprocess.Popen[str]
    stored: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @classmethod
    def started(cls, device: str | None, folder: Path, first: int) -> _Finder:
        arguments = [sys.executable, __file__, *([device] if device else [])]
        finder = cls(
            subprocess.Popen(
                [*arguments, "--finding-in", str(folder)],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "CONVFIND_FIRST_PROBLEM": str(first)},
            )
        )
        threading.Thread(target=finder._hear, daemon=True).start()
        return finder

    def child(self) -> int | None:
        """Return the process in which candidates run, None where none does."""
        pid = self.process.pid
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                for child in map(int, (task / "children").read_text().split()):
                    if _is_there(child):
                        return child
        return None

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            number, _, rest = line.strip().partition(" ")
            if rest == "stored":
                self.stored.append(int(number))
            elif number.isdigit():
                self.failed.append(line.strip())


def _kill(device: str | None, kills: int, generator: random.Random) -> None:
    """Kill children and parents, and print what was lost."""
    counts = {"child": 0, "parent": 0}
    left: list[int] = []
    stored: set[int] = set()
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as name, convfind.open(device) as handle:
        folder, target = Path(name), handle.session.target
        while sum(counts.values()) < kills:
            finder = _Finder.started(device, folder, max(stored, default=-1) + 1)
            lives = generator.randrange(4)
            while finder.process.poll() is None:
                child = finder.child()
                if child is None:
                    time.sleep(0.01)
                    continue
                time.sleep(generator.uniform(0.0, _LATEST_KILL))
                is_last = not lives or sum(counts.values()) + 1 >= kills
                lives -= 1
                victim = finder.process.pid if is_last else child
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                counts["parent" if is_last else "child"] += 1
                if is_last:
                    finder.process.wait()
                left += [] if _is_gone(child) else [child]
            stored |= set(finder.stored)
            failed += finder.failed
        with FindDb.open(folder) as database:
            lost = [n for n in stored if database.lookup(target, _problem(n)) is None]
            damage = database.health()
    click.echo(f"killed   {counts['child']} children, {counts['parent']} parents")
    click.echo(f"stored   {len(stored)} problems, of which {len(lost)} are lost")
    click.echo(f"damaged  {', '.join(damage) or 'nothing'}")
    click.echo(f"failed   {len(failed)} finds{''.join(f'{chr(10)}  {one}' for one in failed[:5])}")
    click.echo(f"left     {len(left)} processes")
    if lost or damage or left or not stored:  # where nothing was stored nothing could be lost
        raise SystemExit(1)


def _is_gone(pid: int) -> bool:
    """Wait until a process has ended, or for so long that it does not."""
    end = time.monotonic() + _LEFT
    while _is_there(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def _is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


if __name__ == "__main__":
    main()
