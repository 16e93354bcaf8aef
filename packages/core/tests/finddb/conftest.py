"""Values and tools that all tests of the find database share."""

from __future__ import annotations

import json
import os
import re
import subprocess
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from convfind.device.target import DeviceKind, Target
from convfind.finddb import FindDb, FindDbWarning, FindEntry, FindRecord
from convfind.finddb.database import FILE_NAME, LAYOUT
from convfind.finddb.database_file import DatabaseFile
from convfind.problem import ConvProblem

Problem = Callable[[int], ConvProblem]
Entry = Callable[..., FindEntry]
InChild = Callable[[Callable[[], Any]], Any]
OneWarning = Callable[[str], AbstractContextManager[None]]


@pytest.fixture
def target() -> Target:
    """A device."""
    return Target(
        backend="opencl",
        name="Test Device",
        kind=DeviceKind.CPU,
        vendor="Test",
        platform="Test OpenCL",
        arch="x86-64",
        compute_units=2,
        driver="1",
    )


@pytest.fixture
def problem() -> Problem:
    """A different problem for each batch size."""
    return lambda batch: ConvProblem.forward(x=(batch, 8, 14, 14), w=(16, 8, 3, 3), padding=1)


@pytest.fixture
def entry() -> Entry:
    """An entry from times by solver id, all in one version."""

    def build(version: int = 1, **times: float) -> FindEntry:
        records = tuple(
            FindRecord(
                solver=solver,
                solver_version=version,
                package="test 1.0",
                algorithm="direct",
                time_ms=time_ms,
                config={"tile_m": 4},
            )
            for solver, time_ms in times.items()
        )
        return FindEntry(
            records=records, considered=tuple(f"{solver}@{version}" for solver in times)
        )

    return build


@pytest.fixture
def filled(tmp_path: Path, target: Target, problem: Problem, entry: Entry) -> Path:
    """The file of a database with 300 problems."""
    with FindDb.open(tmp_path) as db:
        for batch in range(1, 301):
            db.store(target, problem(batch), entry(a=1.0, b=2.0, c=3.0))
    return tmp_path / FILE_NAME


@pytest.fixture
def small_db() -> Callable[[Path], FindDb]:
    """Open a database whose map is so small that it has to grow at once."""

    def build(folder: Path) -> FindDb:
        return FindDb(DatabaseFile(folder / FILE_NAME, LAYOUT, writable=True, map_size=1 << 16), [])

    return build


@pytest.fixture
def one_warning() -> OneWarning:
    """Check that a block, however long, gives exactly one warning, with a message that matches."""

    @contextmanager
    def check(match: str) -> Iterator[None]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        assert [warning.category for warning in caught] == [FindDbWarning]
        assert re.search(match, str(caught[0].message))

    return check


@pytest.fixture
def in_child() -> InChild:
    """Run a function in a forked child and return its result, which has to fit into JSON."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")

    def run(work: Callable[[], Any]) -> object:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.write(writer, json.dumps(work()).encode())
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            result = pipe.read()
        _, status = os.waitpid(child, 0)
        assert status == 0
        return json.loads(result)

    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "small-disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount a small file system: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
