"""Recorded neighbours: which are found, what they change, and that explanations name them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from convfind.cli import build_program
from convfind.finddb import FindDb, FindEntry, FindRecord
from convfind.handle.opening import handle_for
from convfind.heuristics import NotApplicable, Relation, TrainedHeuristic
from convfind.heuristics.features import sizes
from convfind.heuristics.model_file import Model, read_model, write_model
from convfind.heuristics.neighbours import find_neighbours
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.solver import versioned_id
from convfind.testing import MockBackend, mock_solvers

from .conftest import UNITS, with_evidence

Make = Callable[..., Path]

PROBLEM = ConvProblem.forward(x=(4, 4, 8, 8), w=(8, 4, 3, 3), padding=1)
SIBLING = "mock|sibling"
SOLVERS = [solver for solver in mock_solvers() if not solver.is_last_resort]


@pytest.fixture
def model(make_model: Make) -> Path:
    """A model with a network for each set of neighbours."""
    path = make_model()
    alone = read_model(path)
    (network,) = alone.networks
    told = [
        with_evidence(network, *relations)
        for relations in ((Relation.SIBLING,), (Relation.BATCH,), tuple(Relation))
    ]
    write_model(
        path, dataclasses.replace(alone, networks=(network, *told), siblings=("nobody", SIBLING))
    )
    return path


def times(fastest: str) -> dict[str, float]:
    """Times of a record in which one solver is far ahead."""
    return {versioned_id(s): 1.0 if s.solver_id == fastest else 100.0 for s in SOLVERS}


def test_the_nearest_record_of_each_relation_is_found() -> None:
    known = {
        ("here", PROBLEM.with_batch(1).key): {"a@1": 1.0},
        ("here", PROBLEM.with_batch(8).key): {"a@1": 2.0},
        ("here", PROBLEM.with_batch(12).key): {"a@1": 3.0},
        (SIBLING, PROBLEM.key): {"a@1": 4.0},
        (SIBLING, PROBLEM.with_batch(2).key): {"a@1": 5.0},
        ("late", PROBLEM.key): {"a@1": 6.0},
    }
    asked = []

    def records(device: str, problem: ConvProblem) -> Mapping[str, float]:
        asked.append((device, problem.key))
        return known.get((device, problem.key), {})

    def find(*relations: Relation) -> list[tuple[Relation, str, int]]:
        devices = ("here", "nobody", SIBLING, "late")
        found = find_neighbours(PROBLEM, "here", devices, frozenset(relations), records)
        return [(near.relation, near.device, near.problem.x_shape[0]) for near in found]

    both = [(Relation.SIBLING, SIBLING, 4), (Relation.BATCH, "here", 8)]
    assert find(*Relation) == both
    assert find(Relation.BATCH) == both[1:]
    del known["here", PROBLEM.with_batch(8).key]
    assert find(*Relation) == [both[0], (Relation.BATCH, "here", 1)]
    asked.clear()
    assert find() == []
    assert asked == []


@pytest.mark.parametrize("relations", [(Relation.SIBLING,), (Relation.BATCH,), tuple(Relation)])
def test_a_record_near_by_changes_the_ranking(
    model: Path, backend: MockBackend, relations: tuple[Relation, ...]
) -> None:
    heuristic, target = TrainedHeuristic("model", model), backend.open().target

    def best(fastest: str) -> str:
        def records(device: str, problem: ConvProblem) -> dict[str, float]:
            of = Relation.SIBLING if device == SIBLING else Relation.BATCH
            return times(fastest) if of in relations and device != "nobody" else {}

        near = heuristic.neighbours(PROBLEM, target, records)
        assert tuple(neighbour.relation for neighbour in near) == relations
        answer = heuristic.predict(PROBLEM, target, SOLVERS, near)
        assert not isinstance(answer, NotApplicable)
        return answer[0].solver

    for solver in SOLVERS:
        assert best(solver.solver_id) == solver.solver_id


def test_what_was_told_of_one_problem_is_forgotten_for_the_next(
    model: Path, backend: MockBackend
) -> None:
    target = backend.open().target

    def ask(heuristic: TrainedHeuristic, *known: str) -> object:
        def records(device: str, problem: ConvProblem) -> dict[str, float]:
            return {name: time for name, time in times("").items() if name in known}

        near = heuristic.neighbours(PROBLEM, target, records)
        return heuristic.predict(PROBLEM, target, SOLVERS, near)

    ids = [versioned_id(solver) for solver in SOLVERS]
    heuristic = TrainedHeuristic("model", model)
    ask(heuristic, ids[0])
    assert ask(heuristic, ids[1]) == ask(TrainedHeuristic("another", model), ids[1])


def test_without_a_neighbour_the_answer_is_that_of_the_model_alone(
    model: Path, make_model: Make, backend: MockBackend
) -> None:
    target = backend.open().target
    told = TrainedHeuristic("told", model).predict(PROBLEM, target, SOLVERS)
    assert told == TrainedHeuristic("alone", make_model()).predict(PROBLEM, target, SOLVERS)


def test_one_problem_and_a_batch_are_told_the_same(model: Path) -> None:
    networks = read_model(model).networks
    row = sizes(PROBLEM)
    near = {near.relation: near for near in _near()}
    for network in networks:
        last = network.outputs(range(len(network.solvers)))
        alone = network.log_times(row, UNITS, 0, last, near)
        speeds = [(1 / time) ** 5 for time in times(SOLVERS[0].solver_id).values()]
        # Of neither neighbour but its solvers' speeds do these networks make use.
        told = [[*speeds, 1.0, 0.0, 0.0] * len(network.evidence)]
        many = network.batch(
            np.array([row], np.int32), UNITS, 0, np.array(told, np.float32) if told[0] else None
        )
        np.testing.assert_allclose(many[0], alone, atol=2e-3)


def _near() -> Any:
    def records(device: str, problem: ConvProblem) -> dict[str, float]:
        return times(SOLVERS[0].solver_id)

    return find_neighbours(PROBLEM, "here", (SIBLING,), frozenset(Relation), records)


def test_finds_look_neighbours_up_and_explanations_name_them(
    model: Path, backend: MockBackend, tmp_path: Path
) -> None:
    class Plugin:
        @hookimpl
        def convfind_register_backends(self, register: Any) -> None:
            register.add(backend)

        @hookimpl
        def convfind_register_solvers(self, register: Any) -> None:
            register.extend(mock_solvers())

        @hookimpl
        def convfind_register_heuristics(self, register: Any) -> None:
            register.add(TrainedHeuristic("model", model))

    target = backend.open().target
    fastest = SOLVERS[-1]
    with FindDb.open(tmp_path / "db") as database:
        for device, problem in (
            (target, PROBLEM.with_batch(8)),
            (dataclasses.replace(target, identity=SIBLING), PROBLEM),
        ):
            records = tuple(
                FindRecord(
                    solver=solver.solver_id,
                    solver_version=solver.version,
                    package="mock 1",
                    algorithm=solver.algorithm.value,
                    time_ms=times(fastest.solver_id)[versioned_id(solver)],
                )
                for solver in SOLVERS
            )
            database.store(device, problem, FindEntry(records=records))
    registry = Registry.build([Plugin()], load_entry_points=False)
    configured = Settings(user_db_path=tmp_path / "db")
    with handle_for(backend.open(), registry, configured) as handle:
        assert handle.find(PROBLEM, "FAST", dynamic_only=False).best.solver == fastest.solver_id
        found = handle.explain(PROBLEM).advice.neighbours
        assert [near.relation for near in found] == list(Relation)
        assert handle.explain(PROBLEM.with_batch(1)).advice.neighbours[0].problem.x_shape[0] == 8
    words = ["explain", "--x", "4,4,8,8", "--w", "8,4,3,3", "--padding", "1"]
    run = CliRunner().invoke(build_program(registry, configured), [*words, "--json"])
    sibling, batch = json.loads(run.stdout)["neighbours"]
    assert (sibling["relation"], sibling["device"]) == ("sibling", SIBLING)
    assert batch["problem"] == PROBLEM.with_batch(8).key
    text = CliRunner().invoke(build_program(registry, configured), words).stdout
    assert f"near     batch: {PROBLEM.with_batch(8).key} on {target.identity}" in text


def test_networks_that_need_a_neighbour_say_so(model: Path) -> None:
    whole = read_model(model)
    told = Model(whole.devices, whole.networks[1:2], whole.training, whole.siblings)
    answer = told.network(PROBLEM.direction, sizes(PROBLEM))
    assert isinstance(answer, str)
    assert "without a neighbour" in answer
    assert told.network(PROBLEM.direction, sizes(PROBLEM), tuple(Relation)) is told.networks[0]
