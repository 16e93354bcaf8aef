"""The whole on a real device, in processes of their own: find, remember, run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convfind
from convfind.checking.reference import reference_convolution

LAYER = "conv -n 2 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1"


def _start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "convfind", *arguments],
        env={**os.environ, "CONVFIND_USER_DB_PATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _json(process: subprocess.Popen[str]) -> Any:
    out, error = process.communicate()
    assert process.returncode == 0, error
    return json.loads(out)


def _find(folder: Path, *arguments: str) -> Any:
    return _json(_start(folder, "find", LAYER, "--device", "opencl:cpu", "--json", *arguments))


def test_a_second_process_compiles_and_measures_nothing(tmp_path: Path) -> None:
    first = _find(tmp_path)
    assert first["origin"] == "measured"
    assert first["measured"] > 0
    assert first["compiled"] > 0
    if first["in_doubt"]:  # other work disturbed it: once more, and not again
        first = _find(tmp_path)
        assert first["origin"] == "measured"
    second = _find(tmp_path)
    assert second["origin"] == "user-db"
    assert (second["measured"], second["compiled"]) == (0, 0)
    assert [s["solver"] for s in second["solutions"]] == [s["solver"] for s in first["solutions"]]


def test_a_layer_of_vgg_16_goes_to_winograd_by_measurement(tmp_path: Path) -> None:
    layer = "conv -n 2 -c 128 -H 56 -W 56 -k 256 -y 3 -x 3 -p 1 -q 1"  # no record of it ships
    solvers = ("winograd-f4x3-cpu-nchw-fwd", "igemm-cpu-nchw-fwd")
    chosen = [word for solver in solvers for word in ("--solver", solver)]
    for again in range(3):  # others on the machine may take the cores while it is measured
        folder = tmp_path / str(again)
        found = _json(_start(folder, "find", layer, "--device", "opencl:cpu", "--json", *chosen))
        assert found["measured"] == len(solvers)
        best = found["solutions"][0]
        assert best["time_origin"] == "measured"
        if best["algorithm"] == "winograd":
            return
    pytest.fail(f"{best['solver']} is faster")


def test_two_processes_at_once_both_finish_and_leave_one_good_entry(database: Path) -> None:
    arguments = ("find", LAYER, "--device", "opencl:cpu", "--json", "--mode", "NORMAL")
    both = [_start(database, *arguments) for _ in range(2)]
    found = [_json(process) for process in both]
    assert all(result["origin"] == "measured" for result in found)
    later = _find(database)
    assert (later["origin"], later["measured"]) == ("user-db", 0)
    names = [solution["solver"] for solution in later["solutions"]]
    assert len(names) == len(set(names)) > 0


def test_results_that_cancel_are_not_taken_for_wrong(tmp_path: Path) -> None:
    """Of a flat image an edge filter leaves rounding errors alone."""
    w = np.full((4, 4, 3, 3), 0.1, np.float32)
    w[:, :, 1, 1] = -0.8
    np.save(tmp_path / "x.npy", np.full((1, 4, 12, 12), 0.1, np.float32))
    np.save(tmp_path / "w.npy", w)
    shapes = ("--x", "1,4,12,12", "--w", "4,4,3,3", "--solver", "winograd-f4x3-cpu-nchw-fwd")
    files = [f"--{name}-file={tmp_path / name}.npy" for name in "xw"]
    ran = _json(_start(tmp_path, "run", *shapes, *files, "--device", "opencl:cpu", "--json"))
    assert ran["correct"] is True
    assert 0 < ran["error"] <= ran["bound"]


@pytest.mark.parametrize("direction", ["forward", "backward-data", "backward-weights"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_every_solution_gives_the_right_numbers(
    database: Path, direction: str, layout: str
) -> None:
    problem = convfind.ConvProblem.create(
        direction, (3, 6, 11, 9), (10, 3, 3, 2), stride=(2, 1), padding=1, groups=2, layout=layout
    )
    generator = np.random.default_rng(11)
    tensors = {
        name: generator.standard_normal(
            problem.tensor_layout(name).to_memory(problem.shape(name)), dtype=np.float32
        )
        for name in problem.direction.reads
    }
    expected = reference_convolution(problem, *tensors.values())
    settings = convfind.Settings(user_db_path=database)
    with convfind.open("opencl:cpu", settings=settings) as handle:
        estimates = handle.miopen.solutions(problem)
        found = handle.find(problem, "NORMAL")
        for solution in (*estimates, *found.solutions):
            result = handle.run(solution, **tensors)
            assert np.allclose(result, expected, atol=1e-4), solution.solver


def test_nothing_but_zero_bytes_of_workspace_still_runs(database: Path) -> None:
    settings = convfind.Settings(user_db_path=database)
    problem = convfind.ConvProblem.from_driver(LAYER)
    with convfind.open("opencl:cpu", settings=settings) as handle:
        for mode in ("DYNAMIC_HYBRID", "FAST", "NORMAL"):
            found = handle.find(problem, mode, workspace_limit=0)
            assert found.best.workspace == 0
        handle.find(problem, "NORMAL")
        assert handle.find(problem, workspace_limit=0).best.workspace == 0


def test_two_devices_share_a_database_without_mixing_records(database: Path) -> None:
    names = [name for name, _ in convfind.devices().devices]
    if len(names) < 2:
        pytest.skip(f"one device only: {', '.join(names)}")
    settings = convfind.Settings(user_db_path=database)
    problem = convfind.ConvProblem.from_driver(LAYER)
    # What a device compiles for a whole find is not the point, and takes one of them a minute.
    solvers = ("direct-naive-fwd",)
    for name in names[:2]:
        with convfind.open(name, settings=settings) as handle:
            assert handle.find(problem, solvers=solvers).origin == "measured"
    for name in names[:2]:
        with convfind.open(name, settings=settings) as handle:
            found = handle.find(problem, solvers=solvers)
            assert found.origin == "user-db"
            assert all(s.device == handle.target.identity for s in found.solutions)
