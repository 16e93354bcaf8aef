"""Programs compiled in more processes than one, as compilers that take them in turn need it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opencl_testing import NUMBERS

import convfind
from convfind.find.isolation import compilers
from convfind.find.isolation.compilers import Compilers
from convfind.handle import Handle
from convfind.policy import Isolate
from convfind.settings import Settings
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program

pytestmark = pytest.mark.slow

Opened = Callable[..., tuple[Handle, Compilers]]


@pytest.fixture(params=NUMBERS)
def opened(request: Any, tmp_path: Path, monkeypatch: Any) -> Iterator[Opened]:
    """Open a device whose compiler has no patience with itself."""
    monkeypatch.setattr(compilers, "_PATIENCE", 0.0)
    monkeypatch.delenv("TESTS_COMPILED_DIR", raising=False)
    handles = []

    def open_device(**settings: Any) -> tuple[Handle, Compilers]:
        configured = Settings(user_db_path=tmp_path, compile_parallel_level=2, **settings)
        handle = convfind.open(f"opencl:{request.param}", settings=configured)
        handles.append(handle)
        pool: Any = handle.session.kernels._pool
        if pool is None:
            pytest.skip("a device that compiles side by side by itself")
        return handle, pool

    yield open_device
    for handle in handles:
        handle.close()


def program(number: int, file: str = "steps.cl") -> Program:
    return Program(KernelSource("opencl_test_kernels", file), defines=(("NUMBER", number),))


def child_of(pool: Compilers) -> int:
    """Wait until the pool has a child that runs."""
    while not pool._children or pool._children[0].pid is None:
        time.sleep(0.01)
    pid = pool._children[0].pid
    assert pid is not None
    return pid


def test_a_child_compiles_beside_this_process_and_ends_with_the_handle(opened: Opened) -> None:
    handle, pool = opened()
    programs = [program(number) for number in range(4)]
    ready, failures = handle.session.kernels.load(programs)
    assert (set(ready), failures) == (set(programs), {})
    assert handle.session.kernels.compiled == 4
    pid = child_of(pool)
    handle.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_program_that_does_not_build_says_so_wherever_it_is_compiled(opened: Opened) -> None:
    handle, _ = opened()
    programs = [program(number, "broken.cl") for number in range(4)]
    ready, failures = handle.session.kernels.load([*programs, program(9)])
    assert set(ready) == {program(9)}
    assert set(failures) == set(programs)
    assert all("error" in str(failure) for failure in failures.values())


def test_a_child_that_somebody_kills_loses_no_program(opened: Opened) -> None:
    handle, pool = opened()
    killer = threading.Thread(target=lambda: os.kill(child_of(pool), signal.SIGKILL))
    killer.start()
    programs = [program(number) for number in range(4)]
    ready, failures = handle.session.kernels.load(programs)
    killer.join()
    assert (set(ready), failures) == (set(programs), {})


@pytest.mark.parametrize("number", NUMBERS)
def test_who_wants_no_children_has_none(number: int, tmp_path: Path) -> None:
    settings = Settings(user_db_path=tmp_path, isolate=Isolate.NEVER)
    with convfind.open(f"opencl:{number}", settings=settings) as handle:
        assert handle.session.kernels._pool is None
