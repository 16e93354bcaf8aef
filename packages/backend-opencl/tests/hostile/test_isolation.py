"""Candidates that would end this process, or hold it up for ever: they are lost, and no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fatal_solvers import (
    PROBLEM,
    Aborts,
    EndlessGrid,
    EndlessLoop,
    EndlessMacro,
    FarWrites,
    Plugin,
    Pointwise,
    Slow,
    WildAddress,
    read_input,
)
from opencl_testing import NUMBERS

import convfind
from convfind.errors import DeviceError
from convfind.find.isolation import limits, process
from convfind.find.result import FindOrigin
from convfind.handle import Handle
from convfind.plugins.registry import Registry
from convfind.reasons import Reason
from convfind.settings import Settings
from convfind.solver import Solver
from convfind.testing import check_solver
from convfind_backend_opencl.backend import OpenCLBackend

pytestmark = pytest.mark.slow

LOST: dict[Solver, set[Reason]] = {
    WildAddress(): {Reason.CRASHED},
    FarWrites(): {Reason.CRASHED},
    Aborts(): {Reason.CRASHED},
    EndlessLoop(): {Reason.HUNG},
    EndlessMacro(): {Reason.HUNG},
    EndlessGrid(): {Reason.CRASHED, Reason.HUNG},  # PoCL counts groups in 32 bits
}

Opened = Callable[..., Handle]


@pytest.fixture(params=NUMBERS)
def opened(request: Any, tmp_path: Path, monkeypatch: Any) -> Iterator[Opened]:
    """Open a device with these solvers beside those of the backend; all finds share a database."""
    # A machine may be busy, but a pointwise convolution of 144 points does not take so long.
    monkeypatch.setattr(limits, "_LEAST_COMPILATION", 6.0)
    monkeypatch.delenv("TESTS_COMPILED_DIR", raising=False)
    handles = []

    def open_with(*solvers: Solver) -> Handle:
        registry = Registry.build([Plugin(*solvers)])
        settings = Settings(user_db_path=tmp_path)
        handle = convfind.open(f"opencl:{request.param}", registry=registry, settings=settings)
        handles.append(handle)
        return handle

    yield open_with
    for handle in handles:
        handle.close()


def find(handle: Handle, **policy: Any) -> Any:
    ids = [one.solver_id for one in handle.registry.solvers if one.solver_id.startswith("fatal")]
    return handle.find(
        PROBLEM, mode="normal", solvers=[*ids, "opencl-gemm-pointwise-fwd"], **policy
    )


@pytest.mark.parametrize("solver", LOST, ids=lambda solver: solver.solver_id)
def test_who_takes_the_process_along_is_lost_alone_and_named(
    opened: Opened, solver: Solver
) -> None:
    handle = opened(Pointwise(), solver)
    found = find(handle)
    assert {one.solver for one in found.solutions} == {"fatal-not", "opencl-gemm-pointwise-fwd"}
    assert all(one.error is not None and one.error < 1e-5 for one in found.solutions)
    reason = found.rejected[solver.solver_id].reason
    assert reason in LOST[solver]
    (record,) = handle.database.quarantined(handle.target, PROBLEM)
    assert (record.solver, record.reason) == (solver.solver_id, reason)
    again = find(opened(Pointwise(), solver), enforce="DB_UPDATE")
    assert again.rejected[solver.solver_id].reason is Reason.QUARANTINED
    assert reason.value in again.rejected[solver.solver_id].detail


def test_a_solver_that_the_child_does_not_know_runs_here(opened: Opened) -> None:
    class Unknown(Pointwise):
        """Known to this function only."""

        solver_id = "fatal-unknown"

    found = find(opened(Pointwise(), Unknown()))
    assert {"fatal-not", "fatal-unknown"} <= {one.solver for one in found.solutions}


def test_a_hang_does_not_outlast_the_budget(opened: Opened) -> None:
    class First(Pointwise):
        """Known to be good."""

        def wti(self, *_: Any) -> float | None:
            """More than an endless loop."""
            return 99.0

    found = find(opened(First(), EndlessLoop()), time_budget=4.0)
    assert found.rejected["fatal-loop"].reason in (Reason.BUDGET, Reason.HUNG)
    assert "fatal-not" in {one.solver for one in found.solutions}


def test_a_spent_budget_loses_nobody_who_ran(opened: Opened) -> None:
    found = opened(Slow()).find(PROBLEM, mode="normal", solvers=["fatal-slow"], time_budget=0.01)
    assert [one.solver for one in found.solutions] == ["fatal-slow"]


def test_a_child_has_no_input_and_any_path(opened: Opened, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend("")
    sys.path.append(Path("folder"))  # type: ignore[arg-type]  # importing passes over it
    child = opened(Pointwise()).session.child
    assert child is not None
    assert child.call("call", read_input, limit=60.0) == ""


def test_a_child_that_somebody_kills_is_nobodys_fault(opened: Opened) -> None:
    handle = opened(Pointwise())
    for moment in range(12):
        killer = threading.Timer(0.15 * moment, lambda: kill(handle))
        killer.start()
        found = find(handle, enforce="DB_UPDATE")
        killer.join()
        assert {"fatal-not", "opencl-gemm-pointwise-fwd"} == {s.solver for s in found.solutions}
    assert handle.database.quarantined(handle.target, PROBLEM) == ()


def test_without_a_child_only_solvers_of_this_project_run(
    opened: Opened, monkeypatch: Any, caplog: Any
) -> None:
    handle = opened(Pointwise(), WildAddress())
    with monkeypatch.context() as broken:
        broken.setattr(process, "_SERVER", "no_module_of_this_name")
        found = find(handle)
    assert {one.solver for one in found.solutions} == {"opencl-gemm-pointwise-fwd"}
    for name in ("fatal-not", "fatal-address"):
        assert found.rejected[name].reason is Reason.NO_CHILD
        assert "exit status 1" in found.rejected[name].detail
    assert "left out" in caplog.text
    assert handle.database.quarantined(handle.target, PROBLEM) == ()
    again = find(handle)  # by now there is one
    assert {one.solver for one in again.solutions} == {"fatal-not", "opencl-gemm-pointwise-fwd"}
    assert again.rejected["fatal-address"].reason is Reason.CRASHED


def test_who_has_no_child_any_more_is_measured_by_the_next_find(
    opened: Opened, monkeypatch: Any
) -> None:
    handle = opened(Pointwise(), WildAddress())
    child = handle.session.child
    assert child is not None
    child.life()  # it runs, and is the last one
    with monkeypatch.context() as broken:
        broken.setattr(process, "_SERVER", "no_module_of_this_name")
        found = find(handle)
    assert found.rejected["fatal-address"].reason is Reason.NO_CHILD
    assert handle.database.quarantined(handle.target, PROBLEM) == ()
    again = find(handle)
    assert {one.solver for one in again.solutions} == {"fatal-not", "opencl-gemm-pointwise-fwd"}
    assert again.rejected["fatal-address"].reason is Reason.CRASHED


def test_without_a_child_what_always_isolates_measures_nothing(
    opened: Opened, monkeypatch: Any
) -> None:
    monkeypatch.setattr(process, "_SERVER", "no_module_of_this_name")
    with pytest.raises(DeviceError, match=r"exit status 1.*isolate='never'") as error:
        find(opened(Pointwise()), isolate="always")
    assert "\n" not in str(error.value)


def test_without_a_child_a_recorded_solution_stands_unchecked(
    opened: Opened, monkeypatch: Any, caplog: Any
) -> None:
    handle = opened(Pointwise())
    handle.find(PROBLEM, mode="normal", solvers=["fatal-not"])
    kill(handle)
    monkeypatch.setattr(process, "_SERVER", "no_module_of_this_name")
    found = handle.find(PROBLEM, mode="trust_verify", solvers=["fatal-not"])
    assert (found.best.solver, found.measured) == ("fatal-not", 0)
    assert "left out" in caplog.text


def kill(handle: Handle) -> None:
    child = handle.session.child
    if child is not None and child.pid is not None:
        os.kill(child.pid, signal.SIGKILL)


def test_a_closed_handle_leaves_no_process(opened: Opened) -> None:
    handle = opened(Pointwise())
    find(handle)
    assert handle.session.child is not None
    pid = handle.session.child.pid
    assert pid is not None
    handle.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_crash_is_a_finding_of_a_check(number: int, backend: OpenCLBackend) -> None:
    device = backend.open(str(number))
    honest = check_solver(Pointwise(), device, shapes=[PROBLEM], every_variant=False)
    assert honest.problems == [PROBLEM.key]
    report = check_solver(WildAddress(), device, shapes=[PROBLEM], every_variant=False)
    assert [(failure.check, report.ok) for failure in report.failures] == [("lives", False)]


PARENT = """
import sys
import fatal_solvers
import convfind
from convfind.plugins.registry import Registry
solver = getattr(fatal_solvers, sys.argv[2])()
registry = Registry.build([fatal_solvers.Plugin(solver)])
handle = convfind.open(sys.argv[1], registry=registry)
handle.session.child.life()
print(handle.session.child.pid, flush=True)
while True:
    handle.find(
        fatal_solvers.PROBLEM, mode="normal", solvers=[solver.solver_id], enforce="DB_UPDATE"
    )
"""


@contextmanager
def parent(number: int, solver: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a process that finds for ever; yield it and the number of its child."""
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, f"opencl:{number}", solver],
        env={**os.environ, "PYTHONPATH": paths, "CONVFIND_USER_DB_PATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())


def wait_for_the_end_of(pid: int) -> None:
    """Return once a process is gone, or is dead and waits for somebody to notice."""
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state in "ZX":
            return
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at Linux's table of processes")
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("deed", [signal.SIGKILL, signal.SIGINT])
def test_a_child_in_an_endless_loop_ends_with_its_parent(
    number: int, deed: signal.Signals, tmp_path: Path
) -> None:
    with parent(number, "EndlessLoop", tmp_path) as (process, child):
        time.sleep(1.0)
        process.send_signal(deed)
        assert process.wait() == -deed
    wait_for_the_end_of(child)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at Linux's table of processes")
def test_records_survive_kills_at_any_moment(opened: Opened, tmp_path: Path, request: Any) -> None:
    number = request.node.callspec.params["opened"]
    handle = opened(Pointwise())
    find(handle)
    for moment in range(5):
        with parent(number, "Pointwise", tmp_path) as (process, child):
            time.sleep(0.37 * moment)
            process.kill()
        wait_for_the_end_of(child)
    again = opened(Pointwise())
    found = again.find(PROBLEM, mode="fast", solvers=["fatal-not", "opencl-gemm-pointwise-fwd"])
    assert found.origin is FindOrigin.USER_DB
    assert {one.solver for one in found.solutions} == {"fatal-not", "opencl-gemm-pointwise-fwd"}
