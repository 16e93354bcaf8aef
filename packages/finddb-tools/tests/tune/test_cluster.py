"""Workers, schedulers and clients die at random moments; the final database is always the same."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from convfind.problem import ConvProblem
from convfind_finddb_tools.tune.shard import read_shard

pytest.importorskip("distributed", reason="Dask is not installed; the extra [tune] brings it")
psutil = pytest.importorskip("psutil")

Start = Callable[..., "subprocess.Popen[str]"]
Content = Callable[[Path], bytes]

_PACE = 0.04  # of measuring's own: about 30 ms a problem


def _events(database: Path, kind: str) -> list[dict[str, Any]]:
    text = (database / "tuning" / "journal.jsonl").read_text(encoding="utf-8")
    lines = (json.loads(line) for line in text.splitlines() if line.endswith("}"))
    return [line for line in lines if line["event"] == kind]


def _finished_in_shards(database: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for path in (database / "tuning" / "shards").glob("*/finddb.lmdb"):
        for outcome in read_shard(path).outcomes:
            assert outcome.problem not in found, "measured by two workers"
            found[outcome.problem] = outcome.seconds
    return found


def _workers(client: subprocess.Popen[str]) -> Iterator[Any]:
    """The processes of a client in which tasks run."""
    try:
        for process in psutil.Process(client.pid).children(recursive=True):
            if any("spawn_main" in word for word in process.cmdline()):
                yield process
    except psutil.Error:
        return


def _kill(client: subprocess.Popen[str]) -> None:
    os.kill(client.pid, signal.SIGKILL)


def _press_ctrl_c(client: subprocess.Popen[str]) -> None:
    os.killpg(client.pid, signal.SIGINT)  # a terminal sends it to all


def _cancel(client: subprocess.Popen[str]) -> None:
    os.killpg(client.pid, signal.SIGTERM)  # as batch systems do


def _wait_for(database: Path, count: int, client: subprocess.Popen[str]) -> None:
    """Wait until workers have finished so many problems, or all is over."""
    while client.poll() is None:
        journal = database / "tuning" / "journal.jsonl"
        merged = len(_events(database, "finished")) if journal.exists() else 0
        if merged + len(_finished_in_shards(database)) >= count:
            return
        time.sleep(0.02)


def _tune(start: Start, listed: Path, recorded: Path, out: Path, *more: object, **env: Any) -> Any:
    words = ("tune", "run", listed, "--replay", recorded, "--to", out, "--pace", _PACE, *more)
    return start("convfind", *words, **env)


def _check_undisturbed(
    out: Path, recorded: Path, content: Content, problems: list[ConvProblem]
) -> None:
    assert content(out) == content(recorded)
    finished = [event["problem"] for event in _events(out, "finished")]
    assert sorted(finished) == sorted(problem.key for problem in problems)
    assert not (out / "tuning" / "shards").exists()


def test_two_workers_write_what_is_recorded(
    start: Start,
    listed: Path,
    recorded: Path,
    tmp_path: Path,
    content: Content,
    problems: list[ConvProblem],
) -> None:
    out = tmp_path / "out"
    client = _tune(start, listed, recorded, out, "--workers", 2, "--json")
    output, errors = client.communicate()
    assert client.returncode == 0, errors
    assert json.loads(output)["finished"] == 40
    assert len({event["worker"] for event in _events(out, "finished")}) == 2
    _check_undisturbed(out, recorded, content, problems)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_workers_lose_only_what_was_under_way(
    start: Start,
    listed: Path,
    recorded: Path,
    tmp_path: Path,
    content: Content,
    problems: list[ConvProblem],
    seed: int,
) -> None:
    choose = random.Random(seed)
    out = tmp_path / "out"
    client = _tune(start, listed, recorded, out, "--workers", 2, "--json")
    done: dict[str, float] = {}
    for count in sorted(choose.sample(range(2, 30), 3)):
        _wait_for(out, count, client)
        done |= _finished_in_shards(out)
        workers = list(_workers(client))
        if workers:
            choose.choice(workers).kill()
    _, errors = client.communicate()
    assert client.returncode == 0, errors
    _check_undisturbed(out, recorded, content, problems)
    spent = {event["problem"]: event["seconds"] for event in _events(out, "finished")}
    again = [name for name, seconds in done.items() if abs(spent[name] - seconds) > 1e-5]
    assert not again, "measured twice without need"


@pytest.mark.parametrize("how", [_kill, _press_ctrl_c, _cancel])
def test_a_killed_client_resumes(
    start: Start,
    listed: Path,
    recorded: Path,
    tmp_path: Path,
    content: Content,
    problems: list[ConvProblem],
    how: Callable[[subprocess.Popen[str]], None],
) -> None:
    choose = random.Random(how.__name__)
    out = tmp_path / "out"
    done: dict[str, float] = {}
    for count in sorted(choose.sample(range(1, 25), 2)):
        client = _tune(start, listed, recorded, out, "--workers", 2, "--pace", 5 * _PACE)
        _wait_for(out, count, client)
        assert client.poll() is None
        how(client)
        client.communicate()
        assert client.returncode
        done |= _finished_in_shards(out)
        done |= {event["problem"]: event["seconds"] for event in _events(out, "finished")}
    client = _tune(start, listed, recorded, out, "--workers", 2, "--json")
    _, errors = client.communicate()
    assert client.returncode == 0, errors
    _check_undisturbed(out, recorded, content, problems)
    assert not _events(out, "died"), "nobody but the user is to blame"
    spent = {event["problem"]: event["seconds"] for event in _events(out, "finished")}
    again = [name for name, seconds in done.items() if abs(spent[name] - seconds) > 1e-5]
    assert not again, "measured twice without need"


def test_a_dead_scheduler_ends_the_run_and_the_next_one_resumes(
    start: Start,
    listed: Path,
    recorded: Path,
    tmp_path: Path,
    content: Content,
    problems: list[ConvProblem],
) -> None:
    out = tmp_path / "out"

    def cluster() -> tuple[subprocess.Popen[str], str]:
        file = tmp_path / f"scheduler-{time.monotonic_ns()}.json"
        words = ("--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
        scheduler = start("distributed.cli.dask_scheduler", *words)
        while not file.exists():
            assert scheduler.poll() is None, scheduler.communicate()
            time.sleep(0.05)
        options = ("--nthreads", 1, "--resources", "device=1", "--no-dashboard")
        for _ in range(2):
            start("distributed.cli.dask_worker", "--scheduler-file", file, *options)
        return scheduler, json.loads(file.read_text(encoding="utf-8"))["address"]

    scheduler, address = cluster()
    client = _tune(start, listed, recorded, out, "--scheduler", address)
    _wait_for(out, 10, client)
    scheduler.kill()
    output, errors = client.communicate()
    assert client.returncode == 1
    assert "the scheduler is gone" in errors.splitlines()[-1]
    done = {event["problem"]: event["seconds"] for event in _events(out, "finished")}
    assert len(done) >= 10

    _, address = cluster()
    client = _tune(start, listed, recorded, out, "--scheduler", address, "--json")
    output, errors = client.communicate()
    assert client.returncode == 0, errors
    assert json.loads(output)["before"] >= 10
    _check_undisturbed(out, recorded, content, problems)


def test_a_problem_that_kills_three_workers_is_left_out(
    start: Start,
    listed: Path,
    recorded: Path,
    tmp_path: Path,
    problems: list[ConvProblem],
) -> None:
    out = tmp_path / "out"
    poison = problems[7].key
    preload = tmp_path / "poison.py"
    preload.write_text(
        "from convfind_finddb_tools.tune.replay import ReplayStation\n"
        "def killing(self, task, measure=ReplayStation.measure):\n"
        "    import os\n"
        f"    if task.problem == {poison!r}: os._exit(1)\n"
        "    return measure(self, task)\n"
        "ReplayStation.measure = killing\n"
    )
    env = {"DASK_DISTRIBUTED__WORKER__PRELOAD": json.dumps([str(preload)])}
    client = _tune(start, listed, recorded, out, "--workers", 2, "--json", env=env)
    output, errors = client.communicate()
    assert client.returncode == 1, errors
    summary = json.loads(output)
    assert summary["quarantined"] == [poison]
    assert summary["finished"] == 39
    assert summary["deaths"] == 3
    assert {event["problem"] for event in _events(out, "died")} == {poison}

    client = _tune(start, listed, recorded, out, "--json")
    output, errors = client.communicate()
    assert client.returncode == 1
    assert json.loads(output)["quarantined"] == [poison]
    client = _tune(start, listed, recorded, out, "--json", "--again")
    _, errors = client.communicate()
    assert client.returncode == 0, errors
