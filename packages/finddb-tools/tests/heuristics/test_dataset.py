"""Data of any kind as arrays; families and splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.finddb import FindDb, FindEntry, FindRecord
from convfind.problem import ConvProblem
from convfind.testing import MockBackend
from convfind_finddb_tools.heuristics.dataset import Dataset, read_dataset
from convfind_finddb_tools.heuristics.evaluation import calibration_error
from convfind_finddb_tools.heuristics.family import family_of
from convfind_finddb_tools.heuristics.split import held_out

DATA = Path(__file__).parents[1] / "data"
LAYER = ConvProblem.forward((16, 64, 56, 28), (128, 64, 3, 5), padding=(1, 2))


@pytest.mark.parametrize(
    "relative",
    [
        LAYER.with_batch(3),
        LAYER.with_direction("backward-weights"),
        ConvProblem.forward((16, 64, 28, 56), (128, 64, 5, 3), padding=(2, 1)),
        ConvProblem.forward((16, 64, 56, 28), (128, 64, 3, 5), padding=(1, 2), dtype="float16"),
        ConvProblem.forward((16, 64, 56, 28), (128, 64, 3, 5), padding=(1, 2), layout="NHWC"),
        ConvProblem.forward((16, 64, 1, 56, 28), (128, 64, 1, 3, 5), padding=(0, 1, 2)),
    ],
)
def test_the_same_layer_is_one_family(relative: ConvProblem) -> None:
    assert family_of(relative) == family_of(LAYER)


@pytest.mark.parametrize(
    "stranger",
    [
        ConvProblem.forward((16, 65, 56, 28), (128, 65, 3, 5), padding=(1, 2)),
        ConvProblem.forward((16, 64, 56, 28), (128, 64, 5, 3), padding=(2, 1)),
        ConvProblem.forward((16, 64, 56, 28), (128, 64, 3, 5), padding=(1, 2), stride=2),
        ConvProblem.forward((16, 64, 3, 56, 28), (128, 64, 1, 3, 5), padding=(0, 1, 2)),
    ],
)
def test_another_layer_is_another_family(stranger: ConvProblem) -> None:
    assert family_of(stranger) != family_of(LAYER)


def test_no_family_is_on_both_sides_of_a_split() -> None:
    dataset = read_dataset([DATA / "gfx942130.HIP.fdb.txt", DATA / "gfx90a68.HIP.fdb.txt"])
    chosen = held_out(dataset, "family", 0.3, 1)
    assert 0 < chosen.sum() < len(dataset)
    assert not set(dataset.family[chosen]) & set(dataset.family[~chosen])
    assert not held_out(dataset, "family", 0.0, 1).any()
    assert (held_out(dataset, "problem", 0.3, 1) != held_out(dataset, "problem", 0.3, 2)).any()


def test_a_family_is_on_the_same_side_whatever_else_there_is() -> None:
    alone = read_dataset([DATA / "gfx942130.HIP.fdb.txt"])
    both = read_dataset([DATA / "gfx90a68.HIP.fdb.txt", DATA / "gfx942130.HIP.fdb.txt"])
    part = both.on_device(alone.devices[0].identity)
    np.testing.assert_array_equal(part.texts, alone.texts)
    np.testing.assert_array_equal(
        held_out(part, "family", 0.5, 3), held_out(alone, "family", 0.5, 3)
    )


def test_the_order_of_files_does_not_matter_and_times_are_those_of_the_text() -> None:
    files = [DATA / "gfx942130.HIP.fdb.txt", DATA / "gfx90a68.HIP.fdb.txt"]
    assert read_dataset(files).digest == read_dataset(files[::-1]).digest
    dataset = read_dataset(files[:1])
    table = dataset.log_times(dataset.solvers)
    lines = dict(line.split("=") for line in files[0].read_text().splitlines() if "=" in line)
    for text, row in zip(dataset.texts.tolist(), table, strict=True):
        listed = {
            e.split(":")[0]: float(e.split(":")[1].split(",")[0]) for e in lines[text].split(";")
        }
        found = {
            name.removesuffix("@0"): float(np.exp(time))
            for name, time in zip(dataset.solvers, row, strict=True)
            if np.isfinite(time)
        }
        assert found == pytest.approx({k: v for k, v in listed.items() if v > 0}, rel=1e-5)


def _database(folder: Path, *records: tuple[ConvProblem, dict[str, float]]) -> Path:
    """A database of times by versioned id."""
    target = MockBackend().open().target
    with FindDb.open(folder) as database:
        for problem, times in records:
            found = tuple(
                FindRecord(
                    solver=name.rpartition("@")[0],
                    solver_version=int(name.rpartition("@")[2]),
                    package="mock 1",
                    algorithm="direct",
                    time_ms=time,
                )
                for name, time in times.items()
            )
            database.store(target, problem, FindEntry(records=found, considered=tuple(times)))
    return folder


def _times(dataset: Dataset) -> dict[str, dict[str, Any]]:
    return {
        text: {
            dataset.solvers[solver]: pytest.approx(time)
            for row, solver, time in zip(
                dataset.time_row, dataset.time_solver, dataset.time_ms.tolist(), strict=True
            )
            if row == place
        }
        for place, text in enumerate(dataset.texts.tolist())
    }


def test_the_mean_counts_of_a_time_that_several_files_have(tmp_path: Path) -> None:
    first = _database(tmp_path / "first", (LAYER, {"a@1": 1.0, "b@1": 3.0}))
    second = _database(tmp_path / "second", (LAYER, {"a@1": 4.0}))
    assert _times(read_dataset([first, second])) == {LAYER.key: {"a@1": 2.0, "b@1": 3.0}}


def test_a_problem_without_the_newest_version_of_a_solver_is_left_out(tmp_path: Path) -> None:
    other = LAYER.with_batch(3)
    data = _database(
        tmp_path / "tuned", (LAYER, {"a@1": 1.0, "a@2": 4.0, "b@1": 3.0}), (other, {"a@1": 5.0})
    )
    dataset = read_dataset([data])
    assert _times(dataset) == {LAYER.key: {"a@2": 4.0, "b@1": 3.0}}
    assert sum(dataset.skipped.values()) == 1
    assert _times(read_dataset([data], with_older=True))[other.key] == {"a@2": 20.0}


def test_confidence_that_is_right_as_often_as_it_says_has_no_error() -> None:
    confidence = np.repeat([0.55, 0.95], [20, 20])
    right = np.array(([True] * 11 + [False] * 9) + ([True] * 19 + [False]))
    assert calibration_error(confidence, right) == pytest.approx(0.0)
    assert calibration_error(confidence, ~right) == pytest.approx(0.5)
