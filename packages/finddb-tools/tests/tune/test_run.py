"""Tuning in this process, on the mock device and on recorded measurements."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import convfind_finddb_tools.hooks
from convfind.cli import build_program
from convfind.finddb import FindDb
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing import MockBackend
from convfind.testing.mock_backend import MOCK_TARGET
from convfind.testing.solvers import mock_solvers
from convfind_finddb_tools.tune.campaign import Campaign
from convfind_finddb_tools.tune.cluster import DaskFleet
from convfind_finddb_tools.tune.order import Identity, Outcome
from convfind_finddb_tools.tune.shard import Shard, read_shard
from convfind_finddb_tools.tune.workload import read_workload, workload_path

Content = Callable[[Path], bytes]

_LAYERS = """\
conv -n 1 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -F 1  # x3
conv -n 2 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -F 1  # x2
conv -n 1 -c 4 -H 8 -W 8 -k 4 -y 1 -x 1 -F 4
"""


class _Mock:
    """A mock device and solvers as a plugin."""

    def __init__(self) -> None:
        self.backend = MockBackend()

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(self.backend)

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.extend(mock_solvers())


@dataclass
class Shell:
    """Runs the program in this process, on the mock device."""

    settings: Settings
    plugin: _Mock = field(default_factory=_Mock)

    def __call__(self, *arguments: object, code: int = 0) -> Result:
        plugins = [convfind_finddb_tools.hooks, self.plugin]
        registry = Registry.build(plugins, load_entry_points=False)
        program = build_program(registry, self.settings)
        result = CliRunner().invoke(program, [str(word) for word in arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def json(self, *arguments: object, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code).stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(Settings(user_db_path=tmp_path / "user", compile_parallel_level=1))


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    path = tmp_path / "net.txt"
    path.write_text(_LAYERS, encoding="utf-8")
    return path


def _journal(database: Path, event: str) -> list[dict[str, Any]]:
    text = (database / "tuning" / "journal.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines() if line]
    return [line for line in lines if line["event"] == event]


def test_defaults_then_nothing_left(shell: Shell, layers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = shell.json("tune", "run", layers, "--to", out)
    assert (first["total"], first["finished"], first["remaining"]) == (3, 3, 0)
    assert first["measured"] > 3
    with FindDb.open(out) as database:
        problem = ConvProblem.from_driver(_LAYERS.splitlines()[0])
        entry = database.lookup(MOCK_TARGET, problem)
        assert entry is not None
        assert entry.entry.records[0].solver == "mock-hungry"
        assert database.config(MOCK_TARGET, problem, "mock-tunable", 1) is None
        assert {one.solver for one in database.quarantined(MOCK_TARGET, problem)} == {"mock-wrong"}
    assert [line.count for line in read_workload(workload_path(out))] == [3, 2, 1]
    launches = shell.plugin.backend.counters.launches
    again = shell.json("tune", "run", layers, "--to", out)
    assert (again["finished"], again["before"]) == (0, 3)
    assert shell.plugin.backend.counters.launches == launches
    assert shell.json("tune", "run", layers, "--to", out, "--again")["finished"] == 3


def test_what_a_find_measured_is_not_measured_again(
    shell: Shell, layers: Path, tmp_path: Path
) -> None:
    for line in _LAYERS.splitlines():
        shell("find", "--mode", "normal", line.partition("#")[0])
    summary = shell.json("tune", "run", layers)
    assert (summary["finished"], summary["measured"]) == (3, 0)


def test_full_strategy_tunes(shell: Shell, layers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shell("tune", "run", layers, "--to", out, "--strategy", "full")
    problem = ConvProblem.from_driver(_LAYERS.splitlines()[0])
    with FindDb.open(out) as database:
        config = database.config(MOCK_TARGET, problem, "mock-tunable", 1)
    assert config is not None
    assert config["tile"] == 8


def test_neighbours_measure_what_won_nearby(shell: Shell, layers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shell("tune", "run", layers, "--to", out, "--strategy", "neighbours")
    measured = {event["problem"][:9]: event["measured"] for event in _journal(out, "finished")}
    assert measured["fwd-2x4x8"] > 1  # the heaviest of its kind
    assert measured["fwd-1x4x8"] == 1  # only the winner of its neighbour
    assert measured["bwd-weigh"] > 1  # nobody is near


def test_budget_is_spent_first(shell: Shell, layers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = shell.json("tune", "run", layers, "--to", out, "--budget", "0", code=3)
    assert (summary["finished"], summary["remaining"], summary["stopped"]) == (0, 3, "budget")
    assert shell.json("tune", "run", layers, "--to", out)["finished"] == 3


def test_failed_problems_are_listed_once(shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "all.jsonl"
    source.write_text('{"problem": "conv -n 1 -c 4 -H 8 -W 8 -k 4 -F 1"}\n', encoding="utf-8")
    arguments = ("tune", "run", source, "--to", tmp_path / "out", "--solver", "mock-broken")
    (why,) = shell.json(*arguments, code=1)["failed"].values()
    assert "no solver takes" in why
    again = shell.json(*arguments, code=1)
    assert (again["before"], len(again["failed"])) == (1, 1)


@pytest.mark.parametrize("text", ["hello\n", '{"problem":', "conv -n x\n"])
def test_malformed_sources_leave_the_database_alone(
    shell: Shell, layers: Path, tmp_path: Path, text: str, content: Content
) -> None:
    out = tmp_path / "out"
    shell("tune", "run", layers, "--to", out)
    before = content(out), workload_path(out).read_bytes()
    bad = tmp_path / ("bad.jsonl" if text.startswith("{") else "bad.txt")
    bad.write_text(text, encoding="utf-8")
    result = shell("tune", "run", layers, bad, "--to", out, code=2)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert (content(out), workload_path(out).read_bytes()) == before
    shell("tune", "run", bad, "--to", tmp_path / "new", code=2)
    assert not (tmp_path / "new").exists()


def test_two_runs_on_one_database_exclude_each_other(
    shell: Shell, layers: Path, tmp_path: Path
) -> None:
    with Campaign(tmp_path / "out"):
        result = shell("tune", "run", layers, "--to", tmp_path / "out", code=1)
    assert "another run" in result.stderr


def test_replay_needs_another_database(shell: Shell, layers: Path, recorded: Path) -> None:
    result = shell("tune", "run", layers, "--replay", recorded, "--to", recorded, code=1)
    assert "is replayed" in result.stderr


@pytest.mark.parametrize("strategy", ["defaults", "full", "neighbours"])
def test_replay_is_exact(
    shell: Shell, listed: Path, recorded: Path, tmp_path: Path, content: Content, strategy: str
) -> None:
    words = ("tune", "run", listed, "--replay", recorded, "--strategy", strategy, "--to")
    shell(*words, tmp_path / "one")
    shell(*words, tmp_path / "two", "--budget", "0", code=3)
    shell(*words, tmp_path / "two")
    assert content(tmp_path / "one") == content(tmp_path / "two")
    if strategy != "neighbours":
        assert content(tmp_path / "one") == content(recorded)
    else:
        assert len(content(tmp_path / "one")) < len(content(recorded))


def test_list_counts(shell: Shell, layers: Path) -> None:
    listed = shell.json("tune", "list", layers, "--direction", "all", "-n", 8)
    assert listed["occurrences"] == 3 * (5 + 1)
    assert len(listed["problems"]) == 6
    assert (
        "6 problems, 18 occurrences"
        in shell("tune", "list", layers, "--direction", "all", "-n", 8).stdout
    )


def test_no_source_and_wrong_options(shell: Shell, layers: Path) -> None:
    assert "no problems given" in shell("tune", "run", code=2).stderr
    assert "NAME=N" in shell("tune", "list", layers, "--set", "batch", code=2).stderr
    assert "no duration" in shell("tune", "run", layers, "--budget", "soon", code=2).stderr
    assert "--backward" in shell("tune", "list", layers, "--backward", code=2).stderr


def test_without_dask_the_error_says_what_to_install(
    shell: Shell, layers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    arguments = ("tune", "run", layers, "--to", tmp_path / "out", "--workers", 1)
    assert "finddb-tools[tune]" in shell(*arguments, code=1).stderr
    assert DaskFleet.most_in_batch > 1


def test_a_crash_in_this_process_counts_as_a_death(
    shell: Shell, listed: Path, recorded: Path, tmp_path: Path, problems: list[ConvProblem]
) -> None:
    out = tmp_path / "out"
    poison = problems[3].key
    script = (
        "import os, sys\n"
        "from convfind.cli import main\n"
        "from convfind_finddb_tools.tune.replay import ReplayStation\n"
        "def killing(self, task, measure=ReplayStation.measure):\n"
        f"    return os._exit(9) if task.problem == {poison!r} else measure(self, task)\n"
        "ReplayStation.measure = killing\n"
        f"sys.argv[1:] = ['tune', 'run', {str(listed)!r}, '--replay', {str(recorded)!r},"
        f" '--to', {str(out)!r}]\n"
        "main()\n"
    )
    codes = [subprocess.run([sys.executable, "-c", script]).returncode for _ in range(4)]
    assert codes == [9, 9, 9, 1]
    finished = {event["problem"] for event in _journal(out, "finished")}
    assert finished == {problem.key for problem in problems} - {poison}


def test_shards_tell_what_was_not_reported(tmp_path: Path) -> None:
    outcome = Outcome(problem="p", identity=Identity("a|b|c|d|e", "f"), seconds=1.5)
    with Campaign(tmp_path / "out") as campaign:
        shard = Shard(campaign.shards / "one")
        shard.commit([outcome])
        shard.close()
        assert list(campaign.unreported()) == [outcome]
        (campaign.shards / "two").mkdir()
        (campaign.shards / "two" / "finddb.lmdb").write_bytes(b"no database" * 1000)
        assert campaign.add(outcome)
        assert not campaign.add(outcome)
        assert list(campaign.unreported()) == []
    (damaged,) = (event for event in _journal(tmp_path / "out", "damaged")[:1])
    assert "two" in damaged["shard"]
    assert read_shard(tmp_path / "out" / "tuning" / "shards" / "two" / "finddb.lmdb").damage
