"""The simulation keeps the books: all work is done, no time is lost or made up."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

import convfind_finddb_tools.hooks
from convfind.cli import build_program
from convfind.plugins.registry import Registry
from convfind.settings import Settings
from convfind_finddb_tools.tune.comparison import Recorded
from convfind_finddb_tools.tune.order import Strategy
from convfind_finddb_tools.tune.simulation import Costs, Scenario, Simulation

_FREE = Costs(batch=0, problem=0, merge=0, restart=1.0)


def _names(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_without_costs_the_work_is_shared() -> None:
    report = Simulation(Scenario(10, _names(1000), lambda _: 1.0, costs=_FREE)).go()
    assert len(report.finished) == 1000
    assert report.seconds == pytest.approx(100)
    assert report.busy == pytest.approx(1)
    assert report.head_load == 0


def test_a_slow_head_is_the_limit() -> None:
    costs = Costs(batch=1.0, problem=0, merge=0)
    report = Simulation(Scenario(100, _names(500), lambda _: 1.0, costs=costs)).go()
    assert report.head_load > 0.95
    assert report.seconds >= report.batches
    assert report.queue_most > 50


def test_deaths_repeat_work_and_lose_nothing() -> None:
    scenario = Scenario(10, _names(2000), lambda _: 1.0, mean_life=50.0, costs=_FREE)
    report = Simulation(scenario).go()
    assert sorted(report.finished, key=int) == _names(2000)
    assert report.deaths > 10
    assert 0 < report.repeated_seconds < report.deaths
    assert report.seconds > 200


def test_the_budget_ends_it() -> None:
    report = Simulation(Scenario(2, _names(100), lambda _: 1.0, budget=10.0, costs=_FREE)).go()
    assert 18 <= len(report.finished) <= 24  # those that were handed out are finished


@pytest.mark.slow
def test_a_thousand_workers_are_busy() -> None:
    numbers = random.Random(1)
    lasting = [numbers.lognormvariate(0, 0.7) for _ in range(400_000)]
    scenario = Scenario(1000, _names(len(lasting)), lambda name: lasting[int(name)])
    report = Simulation(scenario).go()
    assert len(set(report.finished)) == len(lasting)
    assert report.busy > 0.95
    assert report.seconds < 1.05 * report.ideal_seconds


def test_a_worker_need_not_wait_for_its_next_batch() -> None:
    costs = Costs(batch=0.4, problem=0, merge=0)
    report = Simulation(Scenario(2, _names(100), lambda _: 1.0, costs=costs)).go()
    assert report.busy > 0.95


def test_waiting_problems_come_after_their_neighbour() -> None:
    after = {"1": "0", "2": "0"}
    report = Simulation(Scenario(3, _names(3), lambda _: 1.0, after, costs=_FREE)).go()
    assert report.finished[0] == "0"
    assert report.seconds == pytest.approx(2)


def test_strategies_on_recorded_measurements(recorded: Path) -> None:
    known = Recorded(recorded, None, None)
    assert len(known.problems) == 40
    defaults = known.compare(Strategy.DEFAULTS, 2, {})
    assert defaults.found_ms == pytest.approx(defaults.best_ms)
    neighbours = known.compare(Strategy.NEIGHBOURS, 2, {})
    assert neighbours.best_ms <= neighbours.found_ms < 1.5 * neighbours.best_ms
    cut = known.compare(Strategy.DEFAULTS, 2, {}, budget=2.0)
    assert cut.found_ms > defaults.found_ms
    assert 0 < len(cut.report.finished) < 40


def test_command(recorded: Path, listed: Path) -> None:
    registry = Registry.build([convfind_finddb_tools.hooks], load_entry_points=False)
    program = build_program(registry, Settings(user_db_path=recorded.parent / "user"))

    def run(*words: object) -> str:
        result = CliRunner().invoke(program, ["tune", "simulate", *map(str, words)])
        assert result.exit_code == 0, result.output
        return result.stdout

    document = json.loads(run("--workers", 5, "--workers", 50, "--problems", 2000, "--json"))
    slow, fast = document["runs"]
    assert fast["seconds"] < slow["seconds"] / 5
    assert document["costs_s"]["batch"] > 0
    assert "head" in run("--workers", 5, "--problems", 100)
    compared = json.loads(run(listed, "--replay", recorded, "--workers", 2, "--json"))["runs"]
    assert [one["strategy"] for one in compared] == ["defaults", "full", "neighbours"]
    assert "neighbours" in run("--replay", recorded, "--strategy", "neighbours")
