"""Neighbours in the training: found in bulk as one by one, and of use to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.heuristics import NotApplicable, Relation, TrainedHeuristic
from convfind.heuristics.model_file import write_model
from convfind.heuristics.neighbours import find_neighbours
from convfind.problem import ConvProblem
from convfind.testing import MockBackend
from convfind_finddb_tools.heuristics.dataset import Dataset, read_dataset
from convfind_finddb_tools.heuristics.nearest import Nearest, nearest, records_of

from .conftest import applicable, fill

pytest.importorskip("torch", reason="training needs PyTorch")
from convfind_finddb_tools.heuristics.evaluation import evaluate
from convfind_finddb_tools.heuristics.perceptrons import Form
from convfind_finddb_tools.heuristics.training import Recipe, train

SIBLING = "mock|sibling|8"

SMALL = ((0, Form(hidden=(64, 32), dropout=0.1, decay=0.05)),)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Databases of the device and of a sibling, which lacks a part of the problems."""
    folder = tmp_path_factory.mktemp("near")
    return fill(folder / "own", 150, 1), fill(folder / "other", 100, 1, SIBLING)


@pytest.fixture(scope="module")
def sets(data: tuple[Path, Path]) -> tuple[Dataset, Dataset]:
    own, other = data
    return read_dataset([own]), read_dataset([other])


@pytest.fixture(scope="module")
def model(sets: tuple[Dataset, Dataset], tmp_path_factory: pytest.TempPathFactory) -> Path:
    own, other = sets
    path = tmp_path_factory.mktemp("model") / "near.npz"
    write_model(path, train(own, Recipe(epochs=5, forms=SMALL, neighbours=20), siblings=other))
    return path


def test_all_neighbours_are_those_of_each_problem(sets: tuple[Dataset, Dataset]) -> None:
    own, other = sets
    (device,) = own.devices
    mine, theirs = records_of(own), records_of(other)

    def records(identity: str, problem: ConvProblem) -> dict[str, float]:
        return dict((mine if identity == device.identity else theirs)(identity, problem))

    near = nearest(own, other)
    assert 0 < near[Relation.SIBLING].known.sum() < len(own)
    assert near[Relation.BATCH].known.sum() > 0
    for number, text in enumerate(own.texts.tolist()):
        problem = ConvProblem.from_key(text)
        alone = find_neighbours(problem, device.identity, (SIBLING,), frozenset(Relation), records)
        found = [near[relation].neighbour(number) for relation in Relation]
        assert [neighbour for neighbour in found if neighbour is not None] == list(alone)


def test_a_model_is_told_the_same_in_a_batch(model: Path, sets: tuple[Dataset, Dataset]) -> None:
    own, other = sets
    heuristic, target = TrainedHeuristic("near", model), MockBackend().open().target
    trained = heuristic.model()
    assert len(trained.networks) == 4
    found: dict[Relation, Nearest] = nearest(own, other)
    for known in ((), (Relation.SIBLING,), (Relation.BATCH,), tuple(Relation)):
        right = []
        for number, text in enumerate(own.texts.tolist()):
            problem = ConvProblem.from_key(text)
            solvers = applicable(problem, target)
            near = [found[relation].neighbour(number) for relation in known]
            present = [neighbour for neighbour in near if neighbour is not None]
            answer = heuristic.predict(problem, target, solvers, present)
            assert not isinstance(answer, NotApplicable)
            times = records_of(own)(target.identity, problem)
            fastest = min(times, key=lambda name: times[name]).rpartition("@")[0]
            right.append(answer[0].solver == fastest)
        (scores,) = evaluate(trained, own, known, other).values()
        assert scores.top1 == pytest.approx(np.mean(right), abs=1e-9)


def test_the_program_scores_and_explains_with_neighbours(
    shell: Any, model: Path, data: tuple[Path, Path]
) -> None:
    own, other = data
    document = shell.json("heuristics", "evaluate", model, own, "--all", "--sibling", other)
    known = [tuple(told["known"]) for told in document["neighbours"]]
    assert known == [("sibling",), ("batch",), ("sibling", "batch")]
    for told in document["neighbours"]:
        (scores,) = told["devices"].values()
        assert scores["problems"] == document["problems"] == 150
        assert told["query_us"] > 0
    without = shell.json("heuristics", "evaluate", model, own)
    assert [told["known"] for told in without["neighbours"]] == [["batch"]]
    assert "batch known" in shell("heuristics", "evaluate", model, own).stdout
    key = str(read_dataset([own]).texts[0])
    words = ["heuristics", "explain", model, key]
    assert shell.json(*words)["neighbours"] == {MockBackend().open().target.identity: {}}
    text = shell(*words, "--near", own, "--near", other).stdout
    assert f"sibling: {key} on {SIBLING}" in text
    assert "near     batch: " in text


def test_a_few_neighbours_make_no_network(sets: tuple[Dataset, Dataset]) -> None:
    own, other = sets
    model = train(own, Recipe(epochs=1, forms=SMALL), siblings=other)
    assert [network.relations for network in model.networks] == [()]
    assert model.siblings == (SIBLING,)
