"""From a database by the program to a model file, through the hook, into immediate mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.find.solution import TimeOrigin
from convfind.handle.opening import handle_for
from convfind.heuristics import TrainedHeuristic
from convfind.heuristics.features import SIZES
from convfind.heuristics.model_file import read_model, write_model
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.settings import Settings
from convfind.testing import MockBackend, mock_solvers
from convfind.types import Direction
from convfind_finddb_tools.heuristics.dataset import read_dataset

from .conftest import applicable, fill, law, random_problems

pytest.importorskip("torch", reason="training needs PyTorch")
import torch

from convfind_finddb_tools.heuristics.aim import FIRST
from convfind_finddb_tools.heuristics.perceptrons import Form
from convfind_finddb_tools.heuristics.teaching import Teaching
from convfind_finddb_tools.heuristics.training import Recipe, train

Measured = Callable[[str, int, int], Path]


class Package:
    """What a package that ships a model has in its module of hooks."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend(mock_solvers())

    @hookimpl
    def convfind_register_heuristics(self, register: Any) -> None:
        register.add(TrainedHeuristic("trained", self._path))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    dataset = read_dataset([fill(folder / "tuned", 360, 1)])
    path = folder / "model.npz"
    form = Form(hidden=(64, 32), dropout=0.15, decay=0.05, members=2)
    write_model(path, train(dataset, Recipe(seed=5, epochs=30, forms=((0, form),))))
    return path


def test_a_trained_model_chooses_well_for_problems_that_it_never_saw(
    model: Path, backend: MockBackend, tmp_path: Path
) -> None:
    registry = Registry.build([Package(model)], load_entry_points=False)
    settings = Settings(user_db_path=tmp_path / "empty")
    slowdowns, answered = [], 0
    with handle_for(backend.open(), registry, settings) as handle:
        for problem in random_problems(90, 2):
            best = handle.find(problem, "FAST").best
            if best.time_origin is not TimeOrigin.PREDICTED:
                assert "outside the range" in handle.explain(problem).advice.refusals[0][1]
                continue
            answered += 1
            times = {s.solver_id: law(s, problem) for s in applicable(problem, handle.target)}
            slowdowns.append(times[best.solver] / min(times.values()))
            assert best.estimate_ms == pytest.approx(times[best.solver], rel=1.0)
    assert answered > 60
    assert np.exp(np.log(slowdowns).mean()) < 1.05
    worst = [max(law(s, p) for s in applicable(p, handle.target)) for p in random_problems(9, 2)]
    assert len(set(worst)) > 1  # there was something to choose


def test_the_scores_of_a_file_are_those_of_the_evaluation(
    shell: Any, model: Path, measured: Measured
) -> None:
    document = shell.json("heuristics", "evaluate", model, measured("again", 360, 1))
    (device,) = read_model(model).training.scores
    kept = read_model(model).training.scores[device]
    assert document["problems"] == kept["problems"] > 20
    for name in ("top1", "top3", "within5pct", "geomean_slowdown", "p95_slowdown"):
        assert document[name] == pytest.approx(kept[name], abs=0.05), name
    assert document["top1"] > 0.8
    assert document["geomean_slowdown"] < 1.05
    assert document["median_time_error"] < 0.2
    assert document["query_us"] > 0
    assert document["model_bytes"] == model.stat().st_size
    everything = shell.json("heuristics", "evaluate", model, measured("again", 0, 1), "--all")
    assert everything["problems"] + everything["not_applicable"] == 360


def test_the_same_seed_gives_the_same_model(shell: Any, measured: Measured, tmp_path: Path) -> None:
    data = measured("tuned", 90, 1)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        words = ["--output", tmp_path / name, "--seed", seed, "--epochs", 2]
        shell("heuristics", "train", data, *words)
    first, second, third = (read_model(tmp_path / name) for name in "abc")
    networks = zip(first.networks, second.networks, third.networks, strict=True)
    for network, again, other in networks:
        for ours, theirs in zip(network.weights, again.weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert (network.weights[0] != other.weights[0]).any()
    assert first.training == second.training


def test_a_model_explains_itself(shell: Any, model: Path) -> None:
    words = ["heuristics", "explain", model, "--x", "4,32,14,14", "--w", "64,32,3,3"]
    document = shell.json(*words, "--padding", "1")
    (ranking,) = document["devices"].values()
    times = [row["time_ms"] for row in ranking]
    assert times == sorted(times)
    assert document["training"]["seed"] == 5
    refused = shell.json(*words, "--padding", "1", "--direction", "bwd-data")
    assert refused["refusal"] == "not trained on bwd-data"
    assert "predicted ms" in shell(*words, "--padding", "1").stdout


def test_miopen_text_and_its_import_are_the_same_data(shell: Any, tmp_path: Path) -> None:
    text = Path(__file__).parents[1] / "data/gfx942130.HIP.fdb.txt"
    shell("db", "import", text, "--to", tmp_path / "imported")
    for name, data in (("text", text), ("imported", tmp_path / "imported")):
        words = ["--output", tmp_path / f"{name}.npz", "--epochs", 1, "--held-out", 0]
        shell("heuristics", "train", data, *words)
    models = [read_model(tmp_path / f"{name}.npz") for name in ("text", "imported")]
    assert models[0].training.data_sha256 == models[1].training.data_sha256
    assert models[0].devices[0].compute_units == 304
    solvers = [name for n in models[0].networks for name in n.solvers]
    assert solvers
    assert all(name.endswith("@0") for name in solvers)  # no installed solver has that version


def test_ranks_with_enough_problems_have_networks_of_their_own() -> None:
    everything = read_dataset([Path(__file__).parents[1] / "data/gfx90a68.HIP.fdb.txt"])
    dataset = everything.in_direction(Direction.BACKWARD_DATA)
    forms = ((0, Form(hidden=(240, 160), dropout=0.1, decay=0.1, is_fine=True)),)
    apart = len(dataset) // 4
    recipe = Recipe(epochs=1, held_out=0.0, apart=apart, forms=forms, units_per_solver=4)
    model = train(dataset, recipe)
    for row in dataset.rows.tolist():
        network = model.network(Direction.BACKWARD_DATA, row)
        assert not isinstance(network, str)
        assert {kind[0] for kind in network.domain.kinds} == {row[SIZES.index("spatial_rank")]}
        assert len(network.weights[0]) == 4 * len(network.solvers)
        assert len(network.ramps)
    assert len(model.networks) == 2
    (together,) = train(dataset, replace(recipe, apart=len(dataset))).networks
    assert {kind[0] for kind in together.domain.kinds} == {2, 3}


def test_the_form_goes_by_the_number_of_problems() -> None:
    forms = [Recipe().form(count) for count in (0, 1499, 1500)]
    assert [form.members for form in forms] == [4, 4, 1]
    assert [form.is_fine for form in forms] == [False, False, True]


def test_a_form_of_members_makes_the_mean_of_small_networks() -> None:
    everything = read_dataset([Path(__file__).parents[1] / "data/gfx90a68.HIP.fdb.txt"])
    dataset = everything.in_direction(Direction.FORWARD)
    form = Form(hidden=(5, 4), dropout=0.1, decay=0.05, members=3)
    recipe = Recipe(epochs=1, held_out=0.0, forms=((0, form),), calibration=0.0)
    (network,) = train(dataset, recipe).networks
    assert [len(weights) for weights in network.weights[:-1]] == [15, 12]
    middle = network.weights[1].reshape(3, 4, 3, 5)
    for member in range(3):
        for other in range(3):
            assert middle[member, :, other].any() == (member == other)


def test_of_taught_networks_each_data_type_has_its_own() -> None:
    everything = read_dataset([Path(__file__).parents[1] / "data/gfx90a68.HIP.fdb.txt"])
    dataset = everything.in_direction(Direction.FORWARD)
    teacher, student = (Form(hidden=(8, 6), dropout=0.0, decay=0.1, members=n) for n in (2, 1))
    wiser = replace(teacher, aim=FIRST)
    column = SIZES.index("dtype")
    types, counts = np.unique(dataset.rows[:, column], return_counts=True)
    teaching = Teaching(
        teachers=(teacher, wiser), student=student, fewest=1, apart=counts.max(), made=300, steps=2
    )
    recipe = Recipe(epochs=3, held_out=0.0, teaching=teaching)
    reported = []
    model = train(dataset, recipe, lambda done, total: reported.append((done, total)))
    kinds = [{kind[1] for kind in network.domain.kinds} for network in model.networks]
    assert kinds == [{types[counts.argmax()]}, {*types[counts < counts.max()]}]
    assert reported == [(done, 9) for done in range(1, 10)]
    for row in dataset.rows.tolist():
        assert not isinstance(model.network(Direction.FORWARD, row), str)
    assert len({(network.domain.low, network.domain.high) for network in model.networks}) == 1
    first, second = (network.weights[0] for network in model.networks)
    assert first.shape == second.shape
    assert first.shape[0] == student.hidden[0]
    assert (first != second).any()
    again = train(dataset, recipe)
    for network, same in zip(model.networks, again.networks, strict=True):
        for ours, theirs in zip(network.weights, same.weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    teaching = replace(teaching, fewest=len(dataset) + 1)
    assert len(train(dataset, replace(recipe, teaching=teaching)).networks) == 1


def test_the_program_has_networks_taught(shell: Any, measured: Measured, tmp_path: Path) -> None:
    data = measured("tuned", 1600, 1)
    words = ["--epochs", 1, "--held-out", 0, "--device", "cpu", "--output"]
    shell("heuristics", "train", data, *words, tmp_path / "alone.npz")
    shell("heuristics", "train", data, *words, tmp_path / "taught.npz", "--teachers", 2)
    (alone,), (taught,) = (
        read_model(tmp_path / f"{name}.npz").networks for name in ("alone", "taught")
    )
    assert [len(weights) for weights in alone.weights] == [len(w) for w in taught.weights]
    assert any((a != b).any() for a, b in zip(alone.weights, taught.weights, strict=True))


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_what_is_wrong_is_said_in_a_line(
    shell: Any, model: Path, tmp_path: Path, command: str
) -> None:
    missing = tmp_path / "missing.fdb.txt"
    words = [missing, "--output", tmp_path / "x"] if command == "train" else [model, missing]
    assert "missing.fdb.txt" in shell.error("heuristics", command, *words)


@pytest.mark.skipif(torch.cuda.is_available(), reason="PyTorch sees a GPU")
def test_a_missing_gpu_is_said_in_a_line(shell: Any, tmp_path: Path) -> None:
    words = ["train", tmp_path, "--output", tmp_path / "x.npz", "--device", "cuda"]
    assert "PyTorch sees no GPU" in shell.error("heuristics", *words)


def test_an_unusable_model_is_said_in_a_line(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    assert "bad.npz is damaged or no model" in shell.error(
        "heuristics", "evaluate", tmp_path / "bad.npz", tmp_path
    )
