"""Recorded measurements to be replayed, and the program as a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from convfind.device.target import DeviceKind, Target
from convfind.finddb import FindDb, FindEntry, FindRecord
from convfind.problem import ConvProblem
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.json_lines import export_json_lines
from convfind_finddb_tools.selection import Selection

TARGET = Target(
    backend="opencl",
    name="Recorded Device",
    kind=DeviceKind.GPU,
    vendor="Test",
    platform="Test CL",
    arch="test-1",
    compute_units=8,
    driver="driver 1",
)


@pytest.fixture
def problems() -> list[ConvProblem]:
    """Forty distinct problems, in two classes."""
    sizes = [(1 + number // 2, (3, 5)[number % 2]) for number in range(40)]
    return [ConvProblem.forward((batch, 8, 16, 16), (8, 8, size, size)) for batch, size in sizes]


@pytest.fixture
def recorded(tmp_path: Path, problems: list[ConvProblem]) -> Path:
    """A database with three solvers' measurements of every problem."""
    folder = tmp_path / "recorded"
    with FindDb.open(folder) as database:
        for number, problem in enumerate(problems):
            times = {"solver-a": 1.0, "solver-b": 1.1 + 0.3 * (number % 3), "solver-c": 9.0}
            records = tuple(
                FindRecord(
                    solver=solver,
                    solver_version=1,
                    package="solvers 1.0",
                    algorithm="direct",
                    time_ms=time_ms + number / 1000,
                    samples=5,
                    created=1000 + number,
                    config={"tile": number % 7} if solver == "solver-b" else None,
                )
                for solver, time_ms in times.items()
            )
            considered = tuple(f"{solver}@1" for solver in times)
            database.store(TARGET, problem, FindEntry(records=records, considered=considered))
    return folder


@pytest.fixture
def listed(tmp_path: Path, problems: list[ConvProblem]) -> Path:
    """The same problems as a source."""
    path = tmp_path / "problems.jsonl"
    lines = (json.dumps({"problem": problem.key, "count": 2}) for problem in problems)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


Content = Callable[[Path], bytes]


@pytest.fixture
def content() -> Content:
    """Return a function that gives everything in a database, as text."""

    def read(database: Path) -> bytes:
        output = io.BytesIO()
        with Snapshot(database) as snapshot:
            export_json_lines(snapshot, output, Selection())
        return output.getvalue()

    return read


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a module of Python; what still runs at the end is killed."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs in its background so, and children inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    running: list[subprocess.Popen[str]] = []

    def run(*words: object, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "CONVFIND_USER_DB_PATH": str(tmp_path / "user"), **(env or {})},
            start_new_session=True,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with process:  # closes the pipes and waits
            pass
