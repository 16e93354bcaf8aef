"""A trained model as a heuristic: what it answers, and when it refuses."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from convfind.device.target import Target
from convfind.errors import ModelError
from convfind.heuristics import HeuristicWarning, NotApplicable, TrainedHeuristic
from convfind.heuristics.domain import region_of
from convfind.heuristics.features import sizes
from convfind.heuristics.model_file import Model, read_model, write_model
from convfind.problem import ConvProblem
from convfind.solver import Solver
from convfind.testing import MockBackend, mock_solvers

from .conftest import UNITS, problems

pytestmark = pytest.mark.slow

Make = Callable[..., Path]

PROBLEM = ConvProblem.forward(x=(2, 4, 8, 8), w=(8, 4, 3, 3), padding=1)


@pytest.fixture
def target(backend: MockBackend) -> Target:
    return backend.open().target


@pytest.fixture
def solvers() -> list[Solver]:
    return list(mock_solvers())


def refusal(answer: object) -> str:
    assert isinstance(answer, NotApplicable)
    return answer.reason


def test_an_answer_is_a_ranking_of_what_was_asked(
    make_model: Make, target: Target, solvers: list[Solver]
) -> None:
    heuristic = TrainedHeuristic("model", make_model())
    for problem in problems(50):
        answer = heuristic.predict(problem, target, solvers[:3])
        assert not isinstance(answer, NotApplicable)
        assert sorted(p.solver for p in answer) == sorted(s.solver_id for s in solvers[:3])
        times = [p.time_ms for p in answer]
        assert times == sorted(times)
        assert min(times) > 0
        confidences = [p.confidence for p in answer]
        assert confidences == sorted(confidences, reverse=True)
        assert sum(confidences) == pytest.approx(1.0)


def test_one_problem_and_a_batch_have_the_same_times(
    make_model: Make, target: Target, solvers: list[Solver]
) -> None:
    heuristic = TrainedHeuristic("model", make_model())
    network = heuristic.model().networks[0]
    asked = problems(60)
    rows = np.array([sizes(problem) for problem in asked], np.int32)
    batch = np.exp(network.batch(rows, UNITS, 0))
    for problem, times in zip(asked, batch, strict=True):
        answer = heuristic.predict(problem, target, solvers)
        assert not isinstance(answer, NotApplicable)
        found = {p.solver: p.time_ms for p in answer}
        expected = {
            name.rpartition("@")[0]: time
            for name, time in zip(network.solvers, times.tolist(), strict=True)
        }
        assert found == pytest.approx(expected, rel=1e-3)


def test_threads_may_ask_at_once(make_model: Make, target: Target, solvers: list[Solver]) -> None:
    heuristic = TrainedHeuristic("model", make_model())

    def ask(problem: ConvProblem) -> object:
        return heuristic.predict(problem, target, solvers)

    asked = problems(60) * 20
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(ask, asked)]
    assert answers == [*map(ask, asked)]


def test_a_batch_of_any_length_has_the_times_of_its_problems(make_model: Make) -> None:
    network = TrainedHeuristic("model", make_model()).model().networks[0]
    rows = np.array([sizes(problem) for problem in problems(60)], np.int32)
    alone = network.batch(rows, UNITS, 0)
    many = network.batch(np.tile(rows, (36, 1)), UNITS, 0)  # two whole blocks and a part of one
    np.testing.assert_allclose(many, np.tile(alone, (36, 1)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(network.batch(rows[:1], UNITS, 0), alone[:1], rtol=1e-4, atol=1e-4)
    assert network.batch(rows[:0], UNITS, 0).shape == (0, len(network.solvers))


def test_each_kind_of_problem_has_its_network(make_model: Make, target: Target) -> None:
    path = make_model()
    model = read_model(path)
    (flat,) = model.networks
    lines = ConvProblem.forward((2, 4, 20), (8, 4, 3))
    domain = dataclasses.replace(flat.domain, low=(0,) * 22, kinds=frozenset({sizes(lines)[22:]}))
    later = (*flat.biases[:-1], flat.biases[-1] + np.float32(np.log(2.0)))
    one = dataclasses.replace(flat, domain=domain, biases=later)
    write_model(path, dataclasses.replace(model, networks=(flat, one)))
    heuristic = TrainedHeuristic("model", path)
    fastest = {}
    for problem, network in ((PROBLEM, flat), (lines, one)):
        answer = heuristic.predict(problem, target, mock_solvers()[:2])
        assert not isinstance(answer, NotApplicable)
        fastest[problem] = answer[0].time_ms
        times = np.exp(network.batch(np.array([sizes(problem)], np.int32), UNITS, 0))
        assert fastest[problem] == pytest.approx(times[0, :2].min(), rel=0.02)
    alone = np.exp(flat.batch(np.array([sizes(lines)], np.int32), UNITS, 0))
    assert fastest[lines] == pytest.approx(2 * alone[0, :2].min(), rel=0.02)


def test_the_file_holds_the_model(make_model: Make, tmp_path: Path) -> None:
    model = read_model(make_model())
    write_model(tmp_path / "copy.npz", model)
    copy = read_model(tmp_path / "copy.npz")
    assert copy.devices == model.devices
    assert copy.training == model.training
    for network, other in zip(model.networks, copy.networks, strict=True):
        assert other.domain == network.domain
        for ours, theirs in zip(network.weights, other.weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_nothing_is_read_before_it_is_asked(make_model: Make, target: Target) -> None:
    path = make_model()
    heuristic = TrainedHeuristic("model", path)
    path.unlink()
    with pytest.warns(HeuristicWarning, match="does not exist"):
        heuristic.predict(PROBLEM, target, mock_solvers())


# -- refusals --------------------------------------------------------------------------------------


def test_other_devices_are_refused(make_model: Make, target: Target) -> None:
    heuristic = TrainedHeuristic("model", make_model(identity="another|device"))
    reason = refusal(heuristic.predict(PROBLEM, target, mock_solvers()))
    assert reason == f"trained for another|device, not for {target.identity}"


def test_other_versions_of_a_solver_are_refused(
    make_model: Make, target: Target, solvers: list[Solver]
) -> None:
    first, *others = solvers
    path = make_model(
        f"{first.solver_id}@{first.version + 1}",
        *(f"{solver.solver_id}@{solver.version}" for solver in others),
    )
    reason = refusal(TrainedHeuristic("model", path).predict(PROBLEM, target, solvers))
    assert f"trained on {first.solver_id}@{first.version + 1}" in reason
    assert f"installed is version {first.version}" in reason


def test_unknown_solvers_are_refused(
    make_model: Make, target: Target, solvers: list[Solver]
) -> None:
    known, unknown = solvers[0], solvers[1]
    path = make_model(f"{known.solver_id}@{known.version}")
    heuristic = TrainedHeuristic("model", path)
    assert f"not trained on solver {unknown.solver_id}@" in refusal(
        heuristic.predict(PROBLEM, target, [known, unknown])
    )
    assert not isinstance(heuristic.predict(PROBLEM, target, [known]), NotApplicable)


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (PROBLEM.with_batch(4096), "batch 4096 is outside the range of training, 1 to"),
        (PROBLEM.with_direction("backward-data"), "not trained on bwd-data"),
        (ConvProblem.forward((2, 4, 8, 8), (8, 4, 3, 3), dtype="bfloat16"), "2-D bfloat16"),
        (ConvProblem.forward((2, 4, 8, 8), (8, 4, 3, 3), layout="NHWC"), "x channels last"),
        (ConvProblem.forward((2, 4, 8), (8, 4, 3)), "1-D float32"),
        (dataclasses.replace(PROBLEM, alpha=2.0), "alpha is 2.0, which no feature describes"),
        (dataclasses.replace(PROBLEM, deterministic=True), "deterministic is True"),
        (ConvProblem.forward((2, 4, 8, 8), (8, 4, 2, 2), padding="same"), "padding_end is (1, 1)"),
    ],
)
def test_what_it_was_not_trained_on_is_refused(
    make_model: Make, target: Target, problem: ConvProblem, why: str
) -> None:
    heuristic = TrainedHeuristic("model", make_model())
    assert why in refusal(heuristic.predict(problem, target, mock_solvers()))


def test_regions_in_which_it_is_weak_are_refused(
    make_model: Make, target: Target, tmp_path: Path
) -> None:
    model = read_model(make_model())
    (network,) = model.networks
    line = ConvProblem.forward((2, 4, 8, 8), (8, 4, 1, 3))
    domain = dataclasses.replace(network.domain, weak=frozenset({region_of(sizes(line))}))
    weak = dataclasses.replace(model, networks=(dataclasses.replace(network, domain=domain),))
    path = tmp_path / "weak.npz"
    write_model(path, weak)
    heuristic = TrainedHeuristic("weak", path)
    column = ConvProblem.forward((2, 4, 8, 8), (8, 4, 3, 1))
    for problem in (line, column):
        reason = refusal(heuristic.predict(problem, target, mock_solvers()))
        assert reason == (
            "weak at held-out 2-D float32 with x channels first w channels first y channels first, "
            "axes of the filter longer than 1: 1"
        )
    point = ConvProblem.forward((2, 4, 8, 8), (8, 4, 1, 1))
    half = ConvProblem.forward((2, 4, 8, 8), (8, 4, 1, 3), dtype="float16")
    for problem in (PROBLEM, point, half):
        assert not isinstance(heuristic.predict(problem, target, mock_solvers()), NotApplicable)


# -- files that cannot be used ---------------------------------------------------------------------


def test_a_damaged_file_is_one_warning(make_model: Make, target: Target) -> None:
    path = make_model()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    heuristic = TrainedHeuristic("model", path)
    with pytest.warns(HeuristicWarning, match="damaged") as caught:
        first = heuristic.predict(PROBLEM, target, mock_solvers())
    assert len(caught) == 1
    second = heuristic.predict(PROBLEM, target, mock_solvers())  # warnings are errors here
    assert "damaged" in refusal(first)
    assert refusal(first) == refusal(second)


def test_a_damaged_file_is_an_error_where_the_model_itself_is_wanted(make_model: Make) -> None:
    path = make_model()
    path.write_bytes(b"no model")
    with pytest.raises(ModelError, match="damaged"):  # and no warning, which is an error here
        TrainedHeuristic("model", path).model()


@pytest.mark.parametrize("position", range(0, 60, 2))
def test_damage_is_found_or_harmless(make_model: Make, position: int) -> None:
    path = make_model()
    intact = read_model(path)
    content = bytearray(path.read_bytes())
    content[position * len(content) // 60] ^= 0x5A
    path.write_bytes(content)
    try:
        model = read_model(path)
    except ModelError:
        return
    for network, other in zip(intact.networks, model.networks, strict=True):
        for ours, theirs in zip(network.weights, other.weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["0.mean", "metadata"])
def test_what_is_no_array_is_not_repeated_in_the_message(make_model: Make, name: str) -> None:
    path = make_model()
    content = b"no\narray " * 10_000
    with ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    with ZipFile(path, "w") as archive:
        for member, before in members.items():
            archive.writestr(member, content if member == f"{name}.npy" else before)
    with pytest.raises(ModelError, match="damaged") as raised:
        read_model(path)
    assert len(str(raised.value)) < 1000
    assert "\n" not in str(raised.value)


def test_models_of_other_formats_are_refused(make_model: Make) -> None:
    path = make_model()
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    text = arrays["metadata"].tobytes().replace(b'"format":4', b'"format":9')
    np.savez(path, **(arrays | {"metadata": np.frombuffer(text, np.uint8)}))
    with pytest.raises(ModelError, match="format 9"):
        read_model(path)


def test_arrays_that_do_not_fit_are_damage(make_model: Make) -> None:
    path = make_model()
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(path, **(arrays | {"0.mean": arrays["0.mean"][:-1]}))
    with pytest.raises(ModelError, match="do not fit"):
        read_model(path)


def test_a_small_file_of_huge_arrays_is_refused_before_it_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    np.savez_compressed(path, metadata=np.zeros(1 << 20, np.uint8))
    whole = path.read_bytes()
    said = ((1 << 20) + 128).to_bytes(4, "little")  # with the head of the array
    assert said in whole
    path.write_bytes(whole.replace(said, (1 << 30).to_bytes(4, "little")))
    with pytest.raises(ModelError, match="expands to more than 256 MiB"):
        read_model(path)


def test_a_failed_write_leaves_nothing(make_model: Make, tmp_path: Path) -> None:
    nothing: Any = None
    model = dataclasses.replace(read_model(make_model()), networks=(nothing,))
    folder = tmp_path / "empty"
    folder.mkdir()
    with warnings.catch_warnings(), pytest.raises(AttributeError):
        write_model(folder / "model.npz", model)
    assert list(folder.iterdir()) == []
    assert isinstance(read_model(make_model()), Model)
